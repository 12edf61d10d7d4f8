"""What lasts, told from what flickers."""

from __future__ import annotations

from zeroboard.diagnosis.latch import Latch


def test_what_lasts_is_on_and_goes_off_only_when_it_is_over_for_long() -> None:
    latch = Latch(10, 20)
    seen = [(0, True), (9, True), (10, True), (11, False), (25, True), (26, False), (45, False), (46, False)]
    assert [latch.see(holds, now) for now, holds in seen] == [False, False, True, True, True, True, True, False]


def test_what_flickers_is_never_on() -> None:
    latch = Latch(10, 20)
    assert not any(latch.see(now % 8 != 0, now) for now in range(200))


def test_without_a_wait_it_is_on_at_once() -> None:
    assert Latch(0, 0).see(True, 5.0)
