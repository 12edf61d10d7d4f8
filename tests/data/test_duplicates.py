"""Later copies are counted and named, in memory and on the disk alike."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.data.rows_of import alpaca, chat, lines
from zeroboard.data.duplicates import Copies, Duplicates, digest
from zeroboard.data.judge import judge


@pytest.mark.parametrize("in_memory", [3, 50, 10**6])
def test_the_later_copies_are_told_wherever_the_digests_lie(in_memory: int) -> None:
    chance = random.Random(1)
    values = [chance.randrange(300) for _ in range(1000)]
    wanted = [row for row, value in enumerate(values, 1) if value in values[: row - 1]]
    with Duplicates(20, in_memory) as duplicates:
        for row, value in enumerate(values, 1):
            duplicates.add(row, digest(str(value)))
        duplicates.finish()
        assert duplicates.trained == Copies(len(wanted), wanted[:20])


@pytest.mark.parametrize("in_memory", [3, 90, 150, 10**6])
def test_what_is_measured_and_trained_on_as_well_is_told_apart_from_its_own_copies(in_memory: int) -> None:
    chance = random.Random(2)
    trained, measured = ([chance.randrange(most) for _ in range(200)] for most in (150, 300))
    rows = list(enumerate(measured, 1))
    overlap = [row for row, value in rows if value in trained]
    copies = [row for row, value in rows if value not in trained and value in measured[: row - 1]]
    with Duplicates(20, in_memory) as duplicates:
        for row, value in enumerate(trained, 1):
            duplicates.add(row, digest(str(value)))
        for row, value in rows:
            duplicates.add(row, digest(str(value)), measured=True)
        duplicates.finish()
        assert duplicates.overlap == Copies(len(overlap), overlap[:20]) and overlap
        assert duplicates.measured == Copies(len(copies), copies[:20]) and copies


def test_nothing_stays_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Duplicates(20, 2) as duplicates:
        for row in range(1, 9):
            duplicates.add(row, digest(row))
        assert list(tmp_path.iterdir())
        duplicates.finish()
        assert duplicates.trained == Copies()
    assert not list(tmp_path.iterdir())


def test_rows_are_alike_where_training_sees_the_same(tmp_path: Path) -> None:
    path = lines(tmp_path / "d", alpaca(), alpaca(id=2), alpaca("Another."), alpaca(input=None))
    (problem,) = judge(path).problems
    assert (problem.code, problem.severity, problem.count, problem.rows) == ("duplicate-row", "warning", 2, (2, 4))
    call = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    other = {"role": "assistant", "tool_calls": [{"function": {"name": "g", "arguments": {}}}]}
    rows = [{"messages": [{"role": "user", "content": "q"}, turn]} for turn in (call, other, call)]
    assert [(p.code, p.rows) for p in judge(lines(tmp_path / "c", *rows)).problems] == [("duplicate-row", (3,))]
    assert judge(lines(tmp_path / "b", chat(("user", "q")), chat(("user", "q")))).problems[0].code == "ends-with-user"
