"""What a log shows is bounded, and what was survived is told apart."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from tests.diagnosis.told import ENDED, raised, report, step
from zeroboard.diagnosis.reading import Log
from zeroboard.diagnosis.sightings import MOST, Shown


def read(path: Path, text: str) -> Shown:
    path.write_text(text)
    shown = Shown(Log(path=path, name=path.name, rank=None))
    shown.read()
    return shown


def test_an_exception_that_comes_again_and_again_fills_no_memory_and_the_last_one_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(
        (raised("ValueError: handled") + "2025-01-01 10:00:00 INFO on\n") * 4_000 + raised("ValueError: last")
    )
    tracemalloc.start()
    shown = Shown(Log(path=path, name="a.log", rank=None))
    shown.read()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    kept = list(shown.all())
    assert len(kept) <= 2 * MOST and kept[-1].text == "ValueError: last"
    assert shown.counts["python-exception"] == 4_001 and peak < 4_000_000


def test_what_was_said_before_the_training_went_on_was_survived(tmp_path: Path) -> None:
    shown = read(tmp_path / "a.log", raised("ValueError: early") + step() * 3 + raised("ValueError: late"))
    assert [(s.text, shown.survived(s)) for s in shown.all()] == [
        ("ValueError: early", True),
        ("ValueError: late", False),
    ]


def test_an_end_in_good_order_forgives_and_a_bad_exit_after_it_does_not(tmp_path: Path) -> None:
    shown = read(tmp_path / "a.log", raised("ValueError: v", rank=1) + ENDED)
    assert [shown.survived(s) for s in shown.all()] == [True]
    shown = read(tmp_path / "a.log", raised("ValueError: v", rank=1) + ENDED + report(1, 1))
    assert [shown.survived(s) for s in shown.all() if s.raised and s.rank == 1] == [False]


def test_the_exception_that_carries_a_worker_s_is_dropped_for_it(tmp_path: Path) -> None:
    carried = raised("KeyError: Caught KeyError in DataLoader worker process 0.")
    original = (
        'Original Traceback (most recent call last):\n  File "/w/r.py", line 1, in __getitem__\n    x\nKeyError: 1\n'
    )
    (only,) = read(tmp_path / "a.log", carried + original).all()
    assert (only.text, only.rule.code) == ("KeyError: 1", "data-refused")
