"""How far a stream of bytes is, told a percent at a time: telling costs more than writing a small piece."""

from __future__ import annotations

from collections.abc import Callable

from zeroboard.contract.problems import Scalar

Tell = Callable[[float, str, dict[str, Scalar]], None]
"""Told how far all is (0 to 1), the key of the sentence, and what fills it."""


def told_by_percents(total: int, says: str, tell: Tell) -> Callable[[int], None]:
    """Hears how many bytes were written now; tells each new percent of `total` bytes, with both figures in GB."""
    done, last, whole = 0, -1, max(total, 1)

    def heard(size: int) -> None:
        nonlocal done, last
        done += size
        if (percent := 100 * done // whole) > last:
            last = percent
            tell(done / whole, says, {"written": f"{done / 1e9:,.1f}", "total": f"{total / 1e9:,.1f}"})

    return heard
