"""Does the tokenizer that was saved turn the rows of the training into the tokens that were trained on?

The rows are rendered, tokenised and marked once more, and looked for in the run's tokens. Covered: a template, a
vocabulary or end tokens that changed between tokenising and saving. Not covered: rows beyond the first ones.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from zeroboard.checkpoints.folder import list_folder
from zeroboard.checkpoints.tokenizer import has_tokenizer
from zeroboard.contract.plan import TokenFacts, read_tokens
from zeroboard.contract.problems import Scalar
from zeroboard.contract.reports import Check, CheckVerdict
from zeroboard.contract.requests import TrainedRows
from zeroboard.data.conversations import conversations
from zeroboard.engine.load import CannotLoad, find_tokenizer
from zeroboard.engine.marking import Sample, encode_row
from zeroboard.engine.rendering import TemplateRefused, ensure_template
from zeroboard.engine.store import Store
from zeroboard.errors import ZeroBoardError

LOOKED_AT = 32
"""Rows that are rendered again."""


def judge_rows(path: Path, base: Path | None, rows: TrainedRows, *, trust_remote_code: bool = False) -> Check:
    """The check `template` against the run's own tokens. `base`: has the tokenizer where the result has none."""
    if not rows.unchanged or not Path(rows.data_path).exists():
        return _check("skip", "rows-gone", path=rows.data_path)
    facts = read_tokens(Path(rows.tokens))
    if facts is None:
        return _check("skip", "tokens-gone")
    folder = list_folder(path)
    home = folder if has_tokenizer(folder) or base is None else list_folder(base)
    try:
        tokenizer = find_tokenizer(home, trust_remote_code)
    except CannotLoad as error:
        return Check(name="template", verdict="skip", says=error.problem.message_key, params=error.problem.params)
    ensure_template(tokenizer)
    known = _Known(Path(rows.tokens), rows.max_length)
    looked, missed = 0, 0
    try:
        for conversation in conversations(Path(rows.data_path), rows.columns, rows.mix):
            try:
                sample = encode_row(tokenizer, conversation)
            except TemplateRefused as error:
                if _was_refused(facts, conversation.row):
                    continue
                return _check("fail", "rows-refused", why=str(error)[:300])
            if not any(sample.learned[1 : rows.max_length]):
                missed = missed or conversation.row
                continue  # nothing is learned from it, so the tokens do not hold it
            if not known.hold(sample):
                return _check("fail", "rows-differ", row=conversation.row)
            looked += 1
            if looked == LOOKED_AT:
                break
    except ZeroBoardError:  # the file was there a moment ago
        return _check("skip", "rows-gone", path=rows.data_path)
    if looked:
        return _check("pass", "rows-same", rows=looked)
    # the training did learn from some row
    return _check("fail", "rows-differ", row=missed)


def _was_refused(facts: TokenFacts, row: int) -> bool:
    """Whether the training's own template may have refused that row; the first of those that it did are named."""
    named = facts.named.get("template-refused", ())
    return row in named or facts.refused > len(named)


class _Known:
    """The samples of a tokens folder, mapped into memory."""

    def __init__(self, folder: Path, max_length: int) -> None:
        self._store = Store(folder)
        self._lengths = np.diff(self._store.offsets)
        self._max_length = max_length

    def hold(self, sample: Sample) -> bool:
        """Whether one of them is this one, cut as they are. Their order is not that of the rows."""
        ids = np.asarray(sample.ids[: self._max_length], np.int32)
        learned = np.asarray(sample.learned[: self._max_length], bool)
        starts = self._store.offsets[:-1][self._lengths == len(ids)]
        return any(
            np.array_equal(self._store.ids[start : start + len(ids)], ids)
            and np.array_equal(self._store.learned[start : start + len(ids)], learned)
            for start in starts
        )


def _check(verdict: CheckVerdict, what: str, **params: Scalar) -> Check:
    return Check(name="template", verdict=verdict, says=f"check.template.{what}", params=params)
