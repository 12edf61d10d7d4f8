"""The usable rows, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.rows_of import alpaca, lines
from zeroboard.data.conversations import Turn, conversations
from zeroboard.data.judge import judge
from zeroboard.errors import NotFound, Refused


def test_judging_and_reading_agree(tmp_path: Path) -> None:
    rows = [alpaca(), alpaca(None), alpaca(7), [1], alpaca("x", history=[["a"]]), alpaca("end")]
    path = lines(tmp_path / "d", *rows)
    found = list(conversations(path))
    assert len(found) == judge(path).usable
    for conversation in found:
        roles = [turn.role for turn in conversation.turns if turn.role != "system"]
        assert roles == ["user", "assistant"] * (len(roles) // 2)
        assert isinstance(conversation.turns[0], Turn)


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        judge(tmp_path / "none")
    with pytest.raises(NotFound):
        list(conversations(tmp_path / "none"))


def test_what_is_no_data_or_not_trained_on_is_refused(tmp_path: Path) -> None:
    pairs = lines(tmp_path / "pairs", {"prompt": "q", "chosen": "a", "rejected": "b"})
    assert judge(pairs).usable == 1 and not judge(pairs).trainable
    (tmp_path / "nothing").mkdir()
    for path, says in ((pairs, "data.unknown-format.preference"), (tmp_path / "nothing", "data.empty-file.folder")):
        with pytest.raises(Refused) as refused:
            list(conversations(path))
        assert [(p.code, p.says) for p in refused.value.problems] == [("data-refused", says)]
