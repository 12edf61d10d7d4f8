"""Checks of what turns text into tokens: `tokenizer` and `template`.

Covered: files that are there and can be read, more tokens than the embedding has rows, two templates that say different
things. Not covered: whether the template renders (the reload does that).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from zeroboard.checkpoints.findings import Findings
from zeroboard.checkpoints.folder import Folder
from zeroboard.modelfiles import TEMPLATE, TOKENIZER, TOKENIZER_CONFIG, VOCABULARIES, default_template

TEMPLATE_LIMIT = 4 << 20
"""Bytes of the longest chat template that is read."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """How many rows of an embedding the tokens need."""

    tokens: int
    """Highest number of a token, plus one."""
    learned: int
    """The same without the added tokens."""


def has_tokenizer(folder: Folder) -> bool:
    return any(name in folder.files for name in VOCABULARIES)


def judge_tokenizer(folder: Folder, rows: int | None, findings: Findings, *, base: Folder | None = None) -> None:
    """Both checks; a part that an adapter's folder lacks is looked for in its base. `rows`: of the embedding."""
    home = folder if has_tokenizer(folder) or base is None else base
    if not has_tokenizer(home):
        findings.warn("tokenizer", "missing")
        findings.warn("template", "no-tokenizer")
        return
    tokenizer = home.json(TOKENIZER)
    if tokenizer.fault:
        findings.fail("tokenizer", "unreadable", TOKENIZER, why=tokenizer.fault)
    elif tokenizer.value is not None:
        _judge_size(read_vocabulary(tokenizer.value), rows, findings)
    if home is not folder:
        findings.note("tokenizer", "of-base", base=str(home.path))
    findings.settle("tokenizer", rows=rows)
    _judge_template(home, findings)
    if home is not folder and not findings.faulty("template"):
        findings.note("template", "of-base", base=str(home.path))
    findings.settle("template")


def _judge_size(vocabulary: Vocabulary | None, rows: int | None, findings: Findings) -> None:
    if vocabulary is None:
        findings.fail("tokenizer", "no-vocabulary", TOKENIZER)
    elif rows is not None and vocabulary.tokens > rows:
        # added tokens hurt only when they are used; learned ones are used by any text
        add = findings.fail if vocabulary.learned > rows else findings.warn
        add("tokenizer", "too-large", tokens=vocabulary.tokens, rows=rows)


def read_vocabulary(tokenizer: dict[str, object]) -> Vocabulary | None:
    """How many tokens a `tokenizer.json` knows; None where it holds no vocabulary."""
    model = tokenizer.get("model")
    words = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(words, dict):
        numbers = [n for n in words.values() if isinstance(n, int)]
        learned = max(numbers, default=-1) + 1
    elif isinstance(words, list):  # Unigram: a list of (token, score), numbered by its order
        learned = len(words)
    else:
        return None
    added = tokenizer.get("added_tokens")
    entries = added if isinstance(added, list) else []
    ids = [entry["id"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), int)]
    return Vocabulary(max([learned, *(n + 1 for n in ids)]), learned)


def _judge_template(home: Folder, findings: Findings) -> None:
    config = home.json(TOKENIZER_CONFIG)
    if config.fault:
        findings.fail("tokenizer", "unreadable", TOKENIZER_CONFIG, why=config.fault)
    inside = default_template((config.value or {}).get("chat_template"))
    beside = read_template(home)
    if inside is None and beside is None:
        findings.warn("template", "missing")
    elif inside is not None and beside is not None and inside.strip() != beside.strip():
        findings.warn("template", "disagree", file=TEMPLATE, other=TOKENIZER_CONFIG)


def read_template(home: Folder) -> str | None:
    """The text of `chat_template.jinja`; None where there is none."""
    if home.files.get(TEMPLATE, TEMPLATE_LIMIT + 1) > TEMPLATE_LIMIT:
        return None
    return Path(home.path / TEMPLATE).read_text(encoding="utf-8", errors="replace")
