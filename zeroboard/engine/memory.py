"""How much memory a rank took: the allocator's peak on a GPU, the largest resident size of its process on the CPU."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import torch

GROWTH = 0.02
"""Share by which the peak has to have grown to be told anew."""
PAUSE = 3.0
"""Seconds between two looks."""


def peak_memory() -> int:
    """Bytes."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux tells KiB


class PeakWatch:
    """Tells the peak where it has grown; the first look always tells it."""

    def __init__(
        self,
        tell: Callable[[int], None],
        *,
        peak: Callable[[], int] = peak_memory,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell = tell
        self._peak = peak
        self._clock = clock
        self._told = 0
        self._looked: float | None = None

    def look(self, *, last: bool = False) -> None:
        """Called often; looks at most every `PAUSE` seconds. `last`: look now, and tell the least growth."""
        now = self._clock()
        if not last and self._looked is not None and now - self._looked < PAUSE:
            return
        self._looked = now
        peak = self._peak()
        if peak > self._told * (1 if last else 1 + GROWTH):
            self._told = peak
            self._tell(peak)
