"""The Export tab without a browser: the list, a report with its remedies, the conversation's lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.ui.scripted import everything
from tests.ui.test_views import KEY
from zeroboard.contract.problems import Problem
from zeroboard.contract.reports import CHECK_NAMES, Check, VerifyReport
from zeroboard.contract.requests import ChatDone, ChatPrompt, ChatReady
from zeroboard.errors import Refused, UsageError
from zeroboard.messages import LANGUAGES, Language, has, sentences
from zeroboard.paths import Paths
from zeroboard.services import results
from zeroboard.services.results import Freed, Output
from zeroboard.ui.panels.chat import MOST_TOKENS, judge_settings
from zeroboard.ui.views import chat, export


def output(**changes: object) -> Output:
    values: dict[str, object] = {
        "id": "r1", "run_id": "r1", "name": "demo", "created": 0.0, "step": None, "folder": Path("/r/model"),
        "base": Path("/models/base"), "kind": "lora-adapter", "verdict": None, "facts": {"bytes": 2048},
    }  # fmt: skip
    return Output(**{**values, **changes})  # type: ignore[arg-type]


def visible(page: str) -> str:
    return re.sub(r"<code[^>]*>.*?</code>|<[^>]*>", " ", page)


def bad_report(verdict: str = "fail") -> VerifyReport:
    """A report in which every check is bad, one of them in a way that has no remedy of its own."""
    checks = tuple(Check(name=name, verdict=verdict, says=f"check.{name}.ok") for name in CHECK_NAMES)  # type: ignore[arg-type]
    prompts = [{"prompt": "<b>Who?</b>", "before": "", "after": "<script>alert(1)</script>"}]
    facts = {
        "bytes": 13_353_200, "parameters": 2_442_240, "stage": 2, "world_size": 2, "targets": ["q_proj", "v_proj"],
        "load": {"device": "cpu", "dtype": "float32", "seconds": 3.4}, "prompts": prompts,
    }  # fmt: skip
    return VerifyReport(path="/r", kind="lora-adapter", verdict="fail", checks=checks, facts=facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("verdict", ["fail", "warn"])
def test_every_bad_check_says_what_to_do(lang: Language, verdict: str) -> None:
    page = str(export.report(bad_report(verdict), output(), lang))
    assert page.count('class="todo"') == len(CHECK_NAMES)
    assert not KEY.search(visible(page))
    for key in sentences(lang):
        assert not re.fullmatch(r"check\.[a-z-]+\.remedy", key) or has(key, lang)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_facts_have_units_and_answers_are_shown_as_text(lang: Language) -> None:
    page = str(export.report(bad_report(), output(), lang))
    assert "12.7 MiB" in page
    assert "2.442 M" in page
    assert "q_proj, v_proj" in page
    assert "<script>" not in page and "&lt;script&gt;" in page


@pytest.mark.parametrize(("lang", "told"), [("en", ">q_proj, v_proj<"), ("zh-CN", ">q_proj、v_proj<")])
def test_layers_that_are_named_in_full_are_told_by_their_kind(lang: Language, told: str) -> None:
    targets: list[JsonValue] = [f"model.layers.{at}.self_attn.{kind}_proj" for at in range(40) for kind in "qv"]
    page = str(export.facts({"targets": targets}, lang))
    assert told in page and f'title="{targets[0]}, ' in page


def test_what_passed_is_folded_and_needs_no_remedy() -> None:
    check = Check(name="finite", verdict="pass", says="check.finite.ok", params={"tensors": 4, "bytes": 9_768_960})
    found = VerifyReport(path="/r", kind="full-model", verdict="pass", checks=(check,))
    page = str(export.report(found, output(kind="full-model"), "en"))
    assert "todo" not in page and "<details>" in page
    assert "9,768,960" in page


def test_a_line_of_the_list_tells_result_checkpoint_and_folder_apart() -> None:
    assert export.label(output(verdict="pass"), "en").split("\n")[:2] == ["Result · LoRA adapter", "demo"]
    assert export.label(output(step=40), "en").startswith("Checkpoint 40 · LoRA adapter")
    assert export.label(output(run_id=None, created=None), "zh-CN").startswith("文件夹 · ")
    assert "✓" in export.label(output(verdict="pass"), "en")


def test_the_list_of_a_cache_is_what_its_runs_left(tmp_path: Path) -> None:
    made = everything(tmp_path)
    (found,) = results.outputs(Paths(tmp_path))
    assert found.id == made["finished"].id
    assert found.verdict == "warn"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_lines_of_a_conversation_are_sentences(lang: Language) -> None:
    problem = Problem(code="host-memory", says="load.no-memory", params={"needed": "14.0 GiB", "available": "2.0 GiB"})
    ready = ChatReady(adapter=True, device="cpu", template="chatml")
    prompt = ChatPrompt(id="1", text="<|im_start|>user\n<b>", tokens=9, stops=("<|im_end|>",))
    done = ChatDone(id="1", which="tuned", tokens=12, seconds=1.5, end="end-token")
    freed = Freed(pid=7, gone=True, held=900 << 20, free_before=1 << 30, free_after=2 << 30)
    pages = [
        *(chat.status(lang, state) for state in ("idle", "waiting", "left", "answering", "nothing")),
        chat.status(lang, "done", tokens=3, seconds="0.4"),
        chat.failed(Refused([problem]), lang), chat.refused("chat.prompt-too-long", {"tokens": 9, "limit": 8}, lang),
        chat.prompt(None, None, lang), chat.prompt(prompt, ready, lang), chat.figures(done, 0.21, lang, unfit=14),
        chat.freed(freed, lang), chat.freed(None, lang), chat.loading(lang, None),
    ]  # fmt: skip
    for page in pages:
        assert not KEY.search(visible(str(page))), page
        assert "{" not in visible(str(page)), page
    assert "14.0 GiB" in str(pages[6])
    assert "14 " in str(pages[10]) and 'role="alert"' in str(pages[10])
    assert "&lt;b&gt;" in str(pages[9])
    assert "900.0 MiB" in str(pages[11])


@pytest.mark.parametrize(
    "given",
    [(0, 0, 1, 0), (MOST_TOKENS + 1, 0, 1, 0), (1.5, 0, 1, 0), ("9", 0, 1, 0), (True, 0, 1, 0), (9, -1, 1, 0),
     (9, float("nan"), 1, 0), (9, 0, 0, 0), (9, 0, 1.1, 0), (9, 0, 1, -1), (9, 0, 1, None), (9, 0, 1, 2**32)],
)  # fmt: skip
def test_settings_out_of_bounds_are_refused(given: tuple[object, ...]) -> None:
    with pytest.raises(UsageError):
        judge_settings(*given)


def test_settings_in_bounds_are_taken() -> None:
    assert judge_settings(16.0, 0, 1, 3) == {"max_new_tokens": 16, "temperature": 0.0, "top_p": 1.0, "seed": 3}
