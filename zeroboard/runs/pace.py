"""How long the training will still take: its steps, its evaluations and its saves, each from what it took so far."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass

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


EVALUATED = 0.4
"""Evaluating a sample takes so much of the time of training on it (forward, of forward and backward): an evaluation
that was never seen is expected to take that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """What is planned, as far as it takes time beside the steps."""

    steps: int
    """Of the whole run."""
    save_every: int | None = None
    """Steps between two checkpoints; None: none, or not known."""
    evaluate_every: int | None = None
    """Steps between two evaluations; None: not known."""
    evaluation_rows: int = 0
    """Samples of each."""
    samples_a_step: int = 1


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
        self._evaluations.at(event.step)
        self._saves.at(event.step)

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

    def left(self, ahead: Ahead) -> float | None:
        """Seconds from the latest step, evaluation or save to the end of all steps; None before the first step."""
        if self._last is None:
            return None
        step, pace = self._last.step, self._seconds_a_step()
        guess = EVALUATED * pace * ahead.evaluation_rows / ahead.samples_a_step
        waits = self._evaluations.ahead(step, ahead.steps, ahead.evaluate_every, guess)
        waits += self._saves.ahead(step, ahead.steps, ahead.save_every, 0.0)
        return max(0, ahead.steps - step) * pace + waits

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
        self._seconds: deque[float] = deque(maxlen=HELD)
        self._apart: deque[int] = deque(maxlen=HELD)
        self._done = 0
        """The step of the last one."""

    def add(self, step: int, seconds: float) -> None:
        if step > self._done:
            self._apart.append(step - self._done)
            self._done = step
        self._seconds.append(seconds)

    def at(self, step: int) -> None:
        """A step was made; where it lies before the last one, it is of another attempt, which does that one again."""
        self._done = min(self._done, step)

    def ahead(self, step: int, steps: int, every: int | None, guess: float) -> float:
        """Seconds of those that come until step `steps`, seen from `step`; `guess`: of one, where none was seen yet.

        `every`: steps between two; None: as it was so far, and none where none was seen.
        """
        every = every or (round(statistics.median(self._apart)) if self._apart else None)
        if every is None:
            return 0.0
        typical = statistics.fmean(self._seconds) if self._seconds else guess
        before = max(self._done, step - 1)  # the one that is due at this very step comes, unless it was told just now
        return max(0, steps // every - before // every) * typical
