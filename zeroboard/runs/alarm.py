"""The supervisor's eye on a live run: every few seconds it looks whether all is well, and says what has changed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter

from zeroboard.contract.beats import Beat, read_beats
from zeroboard.contract.events import Event, FindingEvent, RankEvent
from zeroboard.contract.findings import Finding
from zeroboard.contract.readings import Reading
from zeroboard.diagnosis.live import Live
from zeroboard.errors import NotFound
from zeroboard.files import read_lines
from zeroboard.planning.specs import read_spec
from zeroboard.runs.context import Context
from zeroboard.runs.follow import LineFollower
from zeroboard.runs.processes import owner
from zeroboard.runs.stacks import Stacks

log = logging.getLogger(__name__)

READING: TypeAdapter[Reading] = TypeAdapter(Reading)


class Alarm:
    """Says findings as events, when they appear, change and are over."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._live: Live | None = None
        self._ranks: dict[int, RankEvent] = {}
        self._told: dict[tuple[str, int | None], Finding] = {}
        self._stacks = Stacks(context.run)
        self._stalled = False
        self._next = 0.0
        self._readings = LineFollower(context.run.readings, READING, offset=_size(context.run.readings))
        self._log_offset = _size(context.run.rank_log(0))
        self._failing = False

    def inherit(self, events: Iterable[Event]) -> None:
        """What a supervisor before us has noticed is ours to take back."""
        for event in events:
            if isinstance(event, FindingEvent):
                self._note(event.finding, cleared=event.cleared)

    def hear(self, event: Event) -> None:
        """Something that a rank said."""
        if isinstance(event, RankEvent):
            self._ranks[event.rank] = event
        self._rules.hear(event)

    def look(self) -> None:
        """Look, if it is time to; what cannot be read now is read at the next look, and ends no training."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._context.timing.look
        try:
            self._say(self._find(now))
        except OSError as error:
            if not self._failing:
                log.warning("cannot look after the training: %s", error)
            self._failing = True
        else:
            self._failing = False

    def close(self) -> None:
        """The training is over, and with it everything that was wrong while it went on."""
        self._say(())

    @property
    def _rules(self) -> Live:
        if self._live is None:
            context = self._context
            try:
                spec, _ = read_spec(context.run.spec)
            except NotFound:
                spec = None
            self._live = Live(spec=spec, resolved=context.plan.resolved, patience=context.timing.patience)
        return self._live

    def _find(self, now: float) -> tuple[Finding, ...]:
        readings = self._readings.read()
        self._rules.feel(readings, _names(readings))
        self._overhear()
        beats = read_beats(self._context.run)
        found = self._rules.look(beats=beats, state=self._context.life.state.state, now=now)
        stalled = any(finding.code == "stalled" for finding in found)
        if stalled and not self._stalled:
            self._ask(beats)
        self._stalled = stalled
        return self._with_stacks(found) if stalled else found

    def _overhear(self) -> None:
        resolved = self._context.plan.resolved
        if resolved is not None and resolved.dtype == "fp16":
            found = read_lines(self._context.run.rank_log(0), self._log_offset)
            self._log_offset = found.offset
            self._rules.overhear(found.lines)

    def _ask(self, beats: tuple[Beat, ...]) -> None:
        state = self._context.life.state
        since = state.launcher.started if state.launcher is not None else state.created
        log.warning("the training stands still; its ranks are asked for their stacks")
        self._stacks.ask(self._ranks.values(), beats, since=since)

    def _with_stacks(self, found: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """The rank that is behind, or else the first that answered, shows where it stands."""
        stacks = self._stacks.read()
        if not stacks:
            return found
        return tuple(
            finding.model_copy(update={"evidence": stacks.get(finding.rank or 0, stacks[min(stacks)])})
            if finding.code == "stalled"
            else finding
            for finding in found
        )

    def _say(self, found: tuple[Finding, ...]) -> None:
        now = {(finding.code, finding.rank): finding for finding in found}
        for identity, known in list(self._told.items()):
            if identity not in now:
                self._change(known, cleared=True)
        for identity, finding in now.items():
            if self._told.get(identity) != finding:
                self._change(finding)

    def _change(self, finding: Finding, *, cleared: bool = False) -> None:
        self._note(finding, cleared=cleared)
        log.warning("%s: %s %s", "over" if cleared else "noticed", finding.says, finding.params)
        self._context.life.say_finding(finding, cleared=cleared)

    def _note(self, finding: Finding, *, cleared: bool) -> None:
        identity = (finding.code, finding.rank)
        if cleared:
            self._told.pop(identity, None)
        else:
            self._told[identity] = finding


def _names(readings: Iterable[Reading]) -> dict[int, str]:
    """Who the other processes on the GPUs are, as far as they can be seen from here."""
    processes = (process for reading in readings for gpu in reading.gpus for process in gpu.processes or ())
    pids = {process.pid for process in processes if not process.ours}
    return {pid: name for pid in pids if (name := owner(pid)) is not None}


def _size(path: Path) -> int:
    """Bytes that were there before us; what they tell is over."""
    return path.stat().st_size if path.is_file() else 0
