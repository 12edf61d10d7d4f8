"""The one read model of a run: what both faces show, put together from the run's files.

Each look reads only what is new. Nothing here writes.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from zeroboard.contract.events import (
    ErrorEvent,
    Event,
    PhaseEvent,
    ProofEvent,
    RankEvent,
    SaveEvent,
    StepEvent,
    TrainEvent,
)
from zeroboard.contract.plan import Plan, Promise
from zeroboard.contract.reports import Proof, RankProof, VerifyReport
from zeroboard.contract.state import RunState
from zeroboard.errors import NotFound
from zeroboard.paths import RunPaths
from zeroboard.runs.follow import Follower
from zeroboard.runs.registry import read_plan, read_state, seen
from zeroboard.zero.promise import judge_proof, promise

ETA_STEPS = 20
"""How many of the last steps speak for those to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """How a run goes, at one moment."""

    version: int
    """Counts up with each change."""
    state: RunState
    plan: Plan | None
    phase: PhaseEvent | None
    """The latest word about a phase."""
    phase_since: float | None
    """When that phase was first heard of, in seconds since the epoch."""
    ranks: tuple[RankEvent, ...]
    train: TrainEvent | None
    steps: tuple[StepEvent, ...]
    proof: Proof | None
    saves: tuple[SaveEvent, ...]
    errors: tuple[ErrorEvent, ...]
    """In the order of their time: the first is where it began."""
    report: VerifyReport | None
    eta_s: float | None
    """Seconds of training that were left at the last step; see `eta`."""
    skipped: int
    """Lines of the events that could not be understood."""


class SnapshotReader:
    """Reads a run again and again. Not for several threads at once."""

    def __init__(self, run: RunPaths) -> None:
        self.run = run
        self._follower = Follower(run.events)
        self._stamps: dict[Path, tuple[int, int, int] | None] = {}
        self._state: RunState | None = None
        self._plan: Plan | None = None
        self._report: VerifyReport | None = None
        self._events = _Gathered()
        self._last: Snapshot | None = None

    def read(self) -> Snapshot:
        """The run as it is now; the very same object as before where nothing has changed.

        Raises `NotFound` where the run is gone, `BrokenFile` where its state cannot be read.
        """
        changed = self._last is None
        if self._changed(self.run.state) or self._state is None:
            self._state = read_state(self.run)
            changed = True
        if self._plan is None and self._changed(self.run.plan):
            self._plan = _plan(self.run)
            changed = True
        if self._changed(self.run.verify_report):
            self._report = read_report(self.run.verify_report)
            changed = True
        events = self._follower.read()
        if self._follower.restarted:
            self._events = _Gathered()
        if events or self._follower.restarted:
            self._events.take(events)
            changed = True
        state = seen(self._state, self.run)
        if self._last is not None and not changed and state == self._last.state:
            return self._last
        self._last = self._make(state, self._last.version + 1 if self._last is not None else 1)
        return self._last

    def _make(self, state: RunState, version: int) -> Snapshot:
        found = self._events
        last = self._last
        steps = last.steps if last is not None and len(last.steps) == len(found.steps) else tuple(found.steps)
        return Snapshot(
            version=version,
            state=state,
            plan=self._plan,
            phase=found.phase,
            phase_since=found.phase_since,
            ranks=tuple(found.ranks[rank] for rank in sorted(found.ranks)),
            train=found.train,
            steps=steps,
            proof=found.proof(self._plan),
            saves=tuple(found.saves),
            errors=tuple(sorted(found.errors, key=lambda e: e.time)),
            report=self._report,
            eta_s=eta(state, found.steps),
            skipped=self._follower.skipped,
        )

    def _changed(self, path: Path) -> bool:
        """Whether a file that is replaced whole is another one than at the last look."""
        try:
            facts = path.stat()
            stamp = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
        except FileNotFoundError:
            stamp = None
        if path in self._stamps and self._stamps[path] == stamp:
            return False
        before = self._stamps.get(path)
        self._stamps[path] = stamp
        return before != stamp


class _Gathered:
    """What the events told so far."""

    def __init__(self) -> None:
        self.phase: PhaseEvent | None = None
        self.phase_since: float | None = None
        self.ranks: dict[int, RankEvent] = {}
        self.train: TrainEvent | None = None
        self.steps: list[StepEvent] = []
        self.measured: tuple[RankProof, ...] = ()
        self.saves: list[SaveEvent] = []
        self.errors: list[ErrorEvent] = []
        self._judged: tuple[object, Proof] | None = None

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case StepEvent():
                    self.steps.append(event)
                case PhaseEvent():
                    if self.phase is None or self.phase.phase != event.phase:
                        self.phase_since = event.time
                    self.phase = event
                case RankEvent():
                    self.ranks[event.rank] = event
                case TrainEvent():
                    self.train = event
                case ProofEvent():
                    self.measured = event.ranks
                case SaveEvent():
                    self.saves.append(event)
                case ErrorEvent():
                    self.errors.append(event)

    def proof(self, plan: Plan | None) -> Proof | None:
        """What the ranks hold against what the stage promises; judged once for each measurement."""
        if not self.measured or plan is None or plan.resolved is None:
            return None
        known = (self.measured, self.train, plan)
        if self._judged is not None and self._judged[0] == known:
            return self._judged[1]
        resolved, train = plan.resolved, self.train
        judged = judge_proof(
            self.measured,
            plan.promise or _promise(plan, train),
            stage=resolved.stage,
            offload=resolved.offload,
            trainable_share=train.trainable_parameters / train.parameters if train is not None else None,
        )
        self._judged = (known, judged)
        return judged


def eta(state: RunState, steps: list[StepEvent]) -> float | None:
    """Seconds that the steps still to come will take, counted from the last one.

    The median time of the last `ETA_STEPS` steps, times the steps that are left: the median forgives a step that saved
    or waited. None where the run does not train, or the number of its steps is not known.
    """
    if state.state not in ("running", "saving") or state.steps is None or not steps:
        return None
    typical = statistics.median(step.step_time for step in steps[-ETA_STEPS:])
    return max(0, state.steps - steps[-1].step) * typical


def read_report(path: Path) -> VerifyReport | None:
    """A verification as it was kept; None where there is none (or none that this version can read)."""
    try:
        return VerifyReport.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _plan(run: RunPaths) -> Plan | None:
    try:
        return read_plan(run)
    except NotFound:
        return None


def _promise(plan: Plan, train: TrainEvent | None) -> Promise | None:
    """The promise where the plan did not know the model's shapes yet: from what the engine counted."""
    if train is None or plan.resolved is None:
        return None
    return promise(
        stage=plan.resolved.stage,
        offload=plan.resolved.offload,
        ranks=plan.batch.gpus,
        frozen_parameters=train.parameters - train.trainable_parameters,
        trainable_parameters=train.trainable_parameters,
        dtype=plan.resolved.dtype,
    )
