"""How long the training will still take: its steps, its evaluations and its saves, each from what it took so far."""

from __future__ import annotations

import statistics
from collections import deque

from zeroboard.contract.events import EvalEvent, SaveEvent, StepEvent

WINDOW = 256
"""How many of the last intervals between two told steps speak for those to come."""
WARM = 1.5
"""Intervals at the beginning that take so many times the median are warm-up."""
HICCUP = 4.0
"""An interval of so many times the median is an exception ..."""
RECURS = 3
"""... unless there are so many of them: then they belong to the pace."""
HELD = 16
"""How many of the last evaluations and saves speak for those to come."""


class Pace:
    """Follows the events of a run; one object for one attempt and the next."""

    def __init__(self) -> None:
        self._steps: deque[tuple[int, float]] = deque(maxlen=WINDOW)
        """(steps, seconds) of each interval, evaluations and saves within it taken off."""
        self._seen = 0
        self._last: StepEvent | None = None
        self._waits = 0.0
        """Seconds of evaluations and saves since the last step."""
        self._saving: SaveEvent | None = None
        self._evaluations = _Recurring()
        self._saves = _Recurring()

    def began(self) -> None:
        """A new attempt: what came before does not count as an interval."""
        self._last, self._waits, self._saving = None, 0.0, None
        self._steps.clear()
        self._seen = 0

    def stepped(self, event: StepEvent) -> None:
        before = self._last
        count = max(1, event.step - before.step) if before is not None else 1
        seconds = event.step_time * count
        if seconds > self._waits:  # the engine measures from step to step, with all that lies between
            seconds -= self._waits
        self._steps.append((count, seconds))
        self._seen += 1
        self._last, self._waits = event, 0.0

    def evaluated(self, event: EvalEvent) -> None:
        self._evaluations.add(event.step, event.seconds)
        self._waits += event.seconds

    def saved(self, event: SaveEvent) -> None:
        """Only checkpoints recur; the result is written once, after the last step."""
        if not event.done:
            self._saving = event
        elif self._saving is not None and self._saving.path == event.path:
            seconds = max(0.0, event.time - self._saving.time)
            self._saves.add(event.step, seconds)
            self._waits += seconds
            self._saving = None

    def left(self, steps: int, *, save_every: int | None = None) -> float | None:
        """Seconds from the latest step, evaluation or save to the end of the last step; None before the first step.

        `steps`: of the whole run; `save_every`: steps between two checkpoints, where the plan tells.
        """
        if self._last is None:
            return None
        ahead = max(0, steps - self._last.step) * self._seconds_a_step()
        return ahead + self._evaluations.ahead(steps) + self._saves.ahead(steps, save_every)

    def _seconds_a_step(self) -> float:
        """The mean over the window, without the warm-up and without what happened once or twice."""
        known = list(self._steps)
        if self._seen <= len(known) and len(known) > 1:  # the first step is in it: it compiles, allocates, connects
            known = known[1:]
        typical = statistics.median(seconds / count for count, seconds in known)
        if self._seen <= len(self._steps):
            known = _warmed(known, typical)
        slow = [part for part in known if part[1] / part[0] > HICCUP * typical]
        if 0 < len(slow) < RECURS and len(known) > len(slow):
            known = [part for part in known if part[1] / part[0] <= HICCUP * typical]
        return sum(seconds for _, seconds in known) / sum(count for count, _ in known)


def _warmed(known: list[tuple[int, float]], typical: float) -> list[tuple[int, float]]:
    """Without the slow ones at the beginning; at least half of them stays."""
    at = 0
    while at < len(known) // 2 and known[at][1] / known[at][0] > WARM * typical:
        at += 1
    return known[at:]


class _Recurring:
    """Something that is done every so many steps."""

    def __init__(self) -> None:
        self._took: deque[tuple[int, float]] = deque(maxlen=HELD)

    def add(self, step: int, seconds: float) -> None:
        while self._took and self._took[-1][0] >= step:  # an earlier attempt
            self._took.pop()
        self._took.append((step, seconds))

    def ahead(self, steps: int, every: int | None = None) -> float:
        """Seconds of those that are still to come by step `steps`; none is expected where none was seen."""
        if not self._took:
            return 0.0
        last = self._took[-1][0]
        if every is None:
            gaps = [later[0] - sooner[0] for sooner, later in zip(self._took, list(self._took)[1:], strict=False)]
            every = round(statistics.median(gaps)) if gaps else last
        if every < 1:
            return 0.0
        typical = statistics.fmean(seconds for _, seconds in self._took)
        return max(0, steps // every - last // every) * typical
