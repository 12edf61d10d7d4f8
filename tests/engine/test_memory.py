"""Peak memory: told where it grew, and not too often."""

from __future__ import annotations

from zeroboard.engine.memory import PeakWatch, peak_memory


def test_the_peak_is_that_of_this_process() -> None:
    before = peak_memory()
    kept = bytearray(b"x" * (64 << 20))
    assert len(kept) == 64 << 20 and 1 << 20 < before <= peak_memory() < 1 << 40


def test_growth_is_told_and_not_more_than_once_in_some_seconds() -> None:
    told: list[int] = []
    now, peak = [0.0], [1000]
    watch = PeakWatch(told.append, peak=lambda: peak[0], clock=lambda: now[0])
    for second, size in ((0, 1000), (1, 5000), (4, 5000), (8, 5099), (12, 5101), (16, 4000)):
        now[0], peak[0] = second, size
        watch.look()
    assert told == [1000, 5000, 5101]
    peak[0] = 5102
    watch.look()
    watch.look(last=True)
    watch.look(last=True)
    assert told == [1000, 5000, 5101, 5102]
