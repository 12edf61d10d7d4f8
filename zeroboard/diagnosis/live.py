"""A run that goes on → what is wrong with it now. Facts are handed in: no clock, disk or process is asked here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zeroboard.contract.beats import Beat
from zeroboard.contract.events import Event, StepEvent
from zeroboard.contract.findings import Finding
from zeroboard.contract.plan import Resolved
from zeroboard.contract.readings import Reading
from zeroboard.contract.spec import RunSpec
from zeroboard.contract.state import State
from zeroboard.diagnosis.gpus import Gpus
from zeroboard.diagnosis.losses import Losses
from zeroboard.diagnosis.stall import BUSY, Patience, Stall

UNKNOWN = 60.0
"""Seconds without a reading, after which nothing is known of the GPUs."""


class Live:
    """All rules for one live run. Each finding keeps its words while it lasts, so that only changes are news."""

    def __init__(self, *, spec: RunSpec | None, resolved: Resolved | None, patience: Patience | None = None) -> None:
        self.losses = Losses(spec=spec, resolved=resolved)
        self.gpus = Gpus(spec=spec, gpus=resolved.gpus if resolved is not None else ())
        self.stall = Stall(spec=spec, patience=patience or Patience())
        self._working = False
        self._stepped = False
        self._read = False
        self._read_at: float | None = None

    def hear(self, event: Event) -> None:
        """Something that a rank said."""
        self.stall.take(event)
        if isinstance(event, StepEvent):
            self._stepped = True
            self.losses.take(event)

    def overhear(self, lines: Iterable[str]) -> None:
        """New lines of rank 0's log; only steps that 16 bit skipped are looked for in them."""
        self.losses.overhear(lines)

    def feel(self, readings: Iterable[Reading], names: Mapping[int, str]) -> None:
        """New samples of the GPUs. `names`: process → who it is, for people."""
        for reading in readings:
            self._read = True
            self.gpus.take(reading, working=self._working, names=names)

    def look(self, *, beats: Sequence[Beat], state: State, now: float) -> tuple[Finding, ...]:
        """What is wrong at `now` (seconds of a clock that only goes forward), the worst first."""
        if self._read or self._read_at is None:
            self._read, self._read_at = False, now
        elif now - self._read_at >= UNKNOWN:
            self.gpus.forget()
        stalled = self.stall.look(beats=beats, state=state, now=now)
        at_work = all(beat.where not in BUSY for beat in beats)
        self._working = state == "running" and self._stepped and at_work and stalled is None
        return (*([stalled] if stalled is not None else []), *self.losses.findings(), *self.gpus.findings())
