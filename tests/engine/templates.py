"""Which of the chat templates that TRL ships are masked exactly: the table in `docs/templates.*.md`.

    python -m tests.engine.templates        writes them anew

Each template is tried on conversations whose answers are hard to place: odd edges, several turns, a system turn, an
answer that holds the marks of the template itself. Exact means: the learned tokens decode to the answers as the
template writes them, each with its end token, and to nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from tests.tiny import tiny_tokenizer
from zeroboard.data.conversations import Turn
from zeroboard.engine.marking import encode, end_tokens
from zeroboard.engine.rendering import TemplateRefused, has_system
from zeroboard.messages import Language
from zeroboard.paths import HOME

CONTROL = re.compile(
    r"<[|｜][^<>'\"{}]{1,40}[|｜]>|<\|[a-z_]+>|<[a-z_]+\|>|<(?:start|end)_of_turn>|<end_of_utterance>|</?s>|<bos>|<eos>"
)
"""What a template writes that is one token of its model's vocabulary."""

SYSTEM = Turn("system", "Be brief.")
ASK = Turn("user", "What does stage two do?")
CONVERSATIONS: tuple[tuple[Turn, ...], ...] = (
    (ASK, Turn("assistant", "It shards gradients.")),
    (SYSTEM, ASK, Turn("assistant", "It shards gradients.")),
    (ASK, Turn("assistant", "assistant"), Turn("user", "显存 stays."), Turn("assistant", "显存 stays.")),
    (SYSTEM, ASK, Turn("assistant", "One.\n\n\nTwo 🙂"), ASK, Turn("assistant", "…"), ASK, Turn("assistant", "e")),
    (ASK, Turn("assistant", "  \n It does. \n ")),
    (ASK, Turn("assistant", "What does stage two do?"), ASK, Turn("assistant", "`{{ x }}` {% y %}")),
)  # fmt: skip


@lru_cache(maxsize=1)
def originals() -> dict[str, str]:
    """Name → text of every original template that TRL ships; its changed copies for its own training are left out."""
    spec = find_spec("trl")
    assert spec is not None and spec.submodule_search_locations, "TRL is not installed"
    folder = Path(spec.submodule_search_locations[0]) / "chat_templates"
    files = sorted(folder.glob("*.jinja"))
    return {file.stem: file.read_text(encoding="utf-8") for file in files if not file.stem.endswith("_training")}


@lru_cache(maxsize=1)
def tokenizer_for_all() -> PreTrainedTokenizerFast:
    """A tokenizer that knows the control tokens of all of them."""
    tokenizer = tiny_tokenizer()
    found = {token for text in originals().values() for token in CONTROL.findall(text)}
    tokenizer.add_special_tokens({"additional_special_tokens": sorted(found)})
    return tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What became of one template."""

    exact: bool
    end: str
    """The token that ends the last answer."""
    system: bool
    """It has a place for a system turn."""
    why: str = ""
    """Why it is refused."""


def tried(template: str) -> Tried:
    """Try a template; raises `AssertionError` where it is neither followed exactly nor refused."""
    tokenizer = tokenizer_for_all()
    tokenizer.chat_template = template
    system = has_system(tokenizer, template)
    ends: set[str] = set()
    try:
        for turns in CONVERSATIONS:
            ends.add(check(tokenizer, turns))
    except TemplateRefused as refused:
        return Tried(exact=False, end="", system=system, why=str(refused))
    (last,) = end_tokens(tokenizer)
    assert tokenizer.decode([last]) in ends
    return Tried(exact=True, end=str(tokenizer.decode([last])), system=system)


def check(tokenizer: PreTrainedTokenizerFast, turns: tuple[Turn, ...]) -> str:
    """The mask of one conversation is exact, or it is refused by an exception; returns the last end token."""
    sample = encode(tokenizer, turns)
    runs: list[list[int]] = []
    before = 0
    for token, learned in zip(sample.ids, sample.learned, strict=True):
        if learned:
            if not before:
                runs.append([])
            runs[-1].append(token)
        before = learned
    answers = [turn.content for turn in turns if turn.role == "assistant"]
    assert len(runs) == len(answers), (len(runs), answers)
    for run, answer in zip(runs, answers, strict=True):
        assert run[-1] in tokenizer.all_special_ids, tokenizer.decode(run)
        words = str(tokenizer.decode(run[:-1]))
        assert words in {answer, answer.strip(), answer.rstrip(), answer.lstrip()}, (words, answer)
    return str(tokenizer.decode(runs[-1][-1:]))


WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "lead": "# Chat templates\n\nWhile it trains, a model learns the assistant's answers and the token that ends "
        "each, and nothing else. Which tokens these are depends on the chat template of the model. This table says "
        "for the {count} original templates that TRL {version} ships whether they are followed exactly. A template "
        "that cannot be is refused: the rows are named and not trained on. Write the table anew with "
        "`python -m tests.engine.templates`; a test holds it to what the program does.\n\n"
        "| template | learned exactly | ends an answer | system turn |",
        "exact": "yes",
        "refused": "refused: {why}",
        "system": "has a place",
        "folded": "becomes the beginning of the first question",
    },
    "zh-CN": {
        "lead": "# 聊天模板\n\n训练时，模型只学习助手的回答和结束每个回答的 token，"
        "别的都不学。哪些 token 属于它们，由模型的聊天模板决定。"
        "下表列出 TRL {version} 附带的 {count} 个原始模板能否被准确套用。"
        "不能准确套用的模板会被拒绝：涉及的行会列出行号，不参加训练。"
        "用 `python -m tests.engine.templates` 重新生成本表；有测试保证它与程序的实际行为一致。\n\n"
        "| 模板 | 准确学习 | 结束回答的 token | system 消息 |",
        "exact": "是",
        "refused": "拒绝：{why}",
        "system": "支持",
        "folded": "并入第一个提问的开头",
    },
}


def document(language: Language) -> Path:
    """Where the table stands."""
    return HOME / "docs" / f"templates.{language}.md"


def table(language: Language) -> str:
    """The document."""
    words = WORDS[language]
    lines = [words["lead"].format(count=len(originals()), version=version("trl")), "|---|---|---|---|"]
    for name, found in all_tried().items():
        verdict = words["exact"] if found.exact else words["refused"].format(why=found.why)
        end = f"`{found.end}`".replace("|", "\\|") if found.exact else "–"
        lines.append(f"| `{name}` | {verdict} | {end} | {words['system' if found.system else 'folded']} |")
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=1)
def all_tried() -> dict[str, Tried]:
    """Every template, tried."""
    return {name: tried(template) for name, template in originals().items()}


if __name__ == "__main__":
    for one in WORDS:
        document(one).write_text(table(one), encoding="utf-8")
