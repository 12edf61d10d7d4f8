"""How far a stream of bytes is."""

from __future__ import annotations

from typing import Any

from zeroboard.engine.percents import told_by_percents


def test_each_percent_is_told_once_and_the_last_one_is_all() -> None:
    told: list[tuple[float, str, dict[str, Any]]] = []
    heard = told_by_percents(3_000_000_000, "merge.writing", lambda *said: told.append(said))
    for _ in range(3000):
        heard(1_000_000)
    assert len(told) == 101 and [round(100 * done) for done, _, _ in told] == list(range(101))
    assert told[-1] == (1.0, "merge.writing", {"written": "3.0", "total": "3.0"})


def test_nothing_to_write_divides_by_nothing() -> None:
    told: list[float] = []
    told_by_percents(0, "merge.writing", lambda done, says, params: told.append(done))(0)
    assert told == [0.0]
