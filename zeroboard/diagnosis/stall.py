"""A training that stands still: told by what moved last, never by a clock of its own; and which rank is behind.

Covered: ranks that wait for one that never comes, a rank whose process was stopped or hangs within a library, a
training that never takes its first step. Not covered: a rank that moves, only slower than the others.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from zeroboard.contract.beats import Beat
from zeroboard.contract.events import Event, StepEvent
from zeroboard.contract.findings import Finding
from zeroboard.contract.problems import Scalar
from zeroboard.contract.spec import RunSpec
from zeroboard.contract.state import State
from zeroboard.diagnosis.remedies import remedies

BUSY = frozenset({"save", "eval", "end"})
"""Where a rank may be long without moving. That all of them start is told by the run's state; one that has not begun
when the others train is behind."""
USUAL = 20
"""How many of the last steps tell how long one takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds without any movement after which a training stands still."""

    least: float = 120.0
    first: float = 600.0
    """Before the first step: kernels are compiled, the ranks meet."""
    busy: float = 1800.0
    """While it is started, saved or evaluated."""
    silent: float = 20.0
    """Where a rank gives no sign of life either."""
    steps: float = 10.0
    """In any case so many times what a step usually takes."""


@dataclass(slots=True)
class _Rank:
    beat: Beat
    moved: float
    """When it was seen to have moved, and below: to have beaten; by the clock of whoever looks."""
    beaten: float


class Stall:
    """Whether one run stands still."""

    def __init__(self, *, spec: RunSpec | None, patience: Patience) -> None:
        self._spec, self._patience = spec, patience
        self._ranks: dict[int, _Rank] = {}
        self._times: deque[float] = deque(maxlen=USUAL)
        self._spoke = False
        self._last: float | None = None

    def take(self, event: Event) -> None:
        """A rank said something."""
        self._spoke = True
        if isinstance(event, StepEvent):
            every = self._spec.train.log_every if self._spec is not None else 1
            self._times.append(event.step_time * every)

    def look(self, *, beats: Sequence[Beat], state: State, now: float) -> Finding | None:
        """What stands still at `now` (seconds of any clock that only goes forward); None: it moves, or it may rest."""
        if self._last is None or self._spoke:
            self._last, self._spoke = now, False
        for beat in beats:
            self._feel(beat, now)
        last = max((self._last, *(rank.moved for rank in self._ranks.values())))
        busy = state != "running" or any(rank.beat.where in BUSY for rank in self._ranks.values())
        silent = self._silent(now)
        limit = self._limit(busy=busy, silent=bool(silent))
        return self._tell(limit, silent) if now - last >= limit else None

    def _feel(self, beat: Beat, now: float) -> None:
        known = self._ranks.get(beat.rank)
        if known is None or known.beat.pid != beat.pid or known.beat.moves != beat.moves:
            self._ranks[beat.rank] = _Rank(beat, now, now)
        elif known.beat.time != beat.time:
            known.beat, known.beaten = beat, now

    def _silent(self, now: float) -> list[int]:
        return [number for number, rank in self._ranks.items() if now - rank.beaten >= self._patience.silent]

    def _limit(self, *, busy: bool, silent: bool) -> float:
        patience = self._patience
        if busy:
            return patience.busy
        if not self._times:
            return patience.first
        usual = patience.steps * statistics.median(self._times)
        return max(min(patience.silent, patience.least) if silent else patience.least, usual)

    def _tell(self, limit: float, silent: list[int]) -> Finding:
        behind, ranks = self._behind(silent), self._ranks
        params: dict[str, Scalar] = {"seconds": round(limit), "minutes": max(1, round(limit / 60))}
        if not ranks:
            says = "finding.stalled"
        elif behind is None:
            beat = min(ranks.values(), key=lambda rank: rank.beat.rank).beat
            says = "finding.stalled.together"
            params |= {"ranks": len(ranks), "step": beat.step, "where": beat.where}
        else:
            beat = ranks[behind].beat
            says = "finding.stalled.silent" if behind in silent else "finding.stalled.behind"
            params |= {"rank": behind, "step": beat.step, "where": beat.where}
        return Finding(
            code="stalled",
            severity="warning",
            rank=behind,
            says=says,
            params=params,
            remedies=remedies(says.removeprefix("finding."), self._spec),
        )

    def _behind(self, silent: list[int]) -> int | None:
        """The rank that the others wait for: one without a sign of life, or else the one that moved least."""
        moves = {number: rank.beat.moves for number, rank in self._ranks.items()}
        if 0 < len(silent) < len(moves):
            return min(silent, key=lambda number: (moves[number], number))
        if len(set(moves.values())) < 2:
            return None
        return min(moves, key=lambda number: (moves[number], number))
