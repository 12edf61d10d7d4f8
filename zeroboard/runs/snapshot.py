"""The one read model of a run: what both faces show, put together from the run's files.

Each look reads only what is new, and what is kept does not grow with the run. Nothing here writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from zeroboard.contract.beats import Beat, read_beats
from zeroboard.contract.events import (
    ErrorEvent,
    EvalEvent,
    PhaseEvent,
    RankEvent,
    SaveEvent,
    StepEvent,
    TrainEvent,
)
from zeroboard.contract.findings import Finding
from zeroboard.contract.plan import Plan
from zeroboard.contract.readings import Reading
from zeroboard.contract.reports import Proof, VerifyReport
from zeroboard.contract.spec import RunSpec
from zeroboard.contract.state import ENDED, RunState
from zeroboard.errors import NotFound
from zeroboard.files import read_whole
from zeroboard.paths import RunPaths
from zeroboard.planning.specs import read_spec
from zeroboard.runs.follow import Follower
from zeroboard.runs.gathered import Gathered
from zeroboard.runs.history import History
from zeroboard.runs.mfu import mfu_of_token
from zeroboard.runs.pace import Ahead
from zeroboard.runs.registry import read_plan, read_state, seen
from zeroboard.runs.series import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """How a run goes, at one moment. Parts that did not change are the very same objects as in the one before."""

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
    last: StepEvent | None
    """The latest step that was told."""
    evaluation: EvalEvent | None
    """The latest evaluation."""
    series: Series
    """The curves over the steps, thinned."""
    peaks: Mapping[int, int]
    """Rank → the most memory that it has held, in bytes."""
    history: tuple[Reading, ...]
    """Readings of GPUs and host, oldest first: the last minutes in full, older ones thinned."""
    beats: tuple[Beat, ...]
    """The last sign of life of each rank; empty once the run has ended."""
    findings: tuple[Finding, ...]
    """What was noticed while it runs and is not over."""
    proof: Proof | None
    saves: tuple[SaveEvent, ...]
    """The last ones."""
    errors: tuple[ErrorEvent, ...]
    """In the order of their time: the first is where it began."""
    report: VerifyReport | None
    eta_s: float | None
    """Seconds of training, its evaluations and saves included, that were left at the last of them; see `runs.pace`."""
    price_per_hour: float | None
    """Of all GPUs of the run together, in whatever currency it was told; None: it was not, or the run uses no GPU."""
    skipped: int
    """Lines of the events that could not be understood."""

    @property
    def epoch(self) -> float | None:
        """How many times the data has been gone through."""
        return self.last.epoch if self.last is not None else None

    @property
    def heard(self) -> float:
        """When the latest of what is known was said, in seconds since the epoch."""
        said = (self.phase, self.last, self.evaluation, *self.saves[-1:], *self.ranks[-1:])
        return max([self.state.changed, *(event.time for event in said if event is not None)])

    @property
    def elapsed(self) -> float | None:
        """Seconds from its start to its end, or to the latest word; None where it was never started."""
        if self.state.started is None:
            return None
        return max(0.0, (self.state.ended or self.heard) - self.state.started)

    @property
    def cost(self) -> float | None:
        """Of all GPUs from the start of the run to its end, or to the latest word; None where no price was told."""
        if self.price_per_hour is None or self.elapsed is None:
            return None
        return self.price_per_hour * self.elapsed / 3600

    @property
    def cost_expected(self) -> float | None:
        """Of the whole run, as far as its training; None where the time that is left is not known."""
        if self.cost is None or self.price_per_hour is None or self.state.state in ENDED:
            return self.cost
        return self.cost + self.price_per_hour * self.eta_s / 3600 if self.eta_s is not None else None


class SnapshotReader:
    """Reads a run again and again. Not for several threads at once."""

    def __init__(self, run: RunPaths) -> None:
        self.run = run
        self._follower = Follower(run.events)
        self._history = History(run.readings)
        self._stamps: dict[Path, tuple[int, int, int] | None] = {}
        self._state: RunState | None = None
        self._plan: Plan | None = None
        self._spec: RunSpec | None = None
        self._report: VerifyReport | None = None
        self._events = Gathered()
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
            self._plan, self._spec = _plan(self.run), _spec(self.run)
            changed = True
        if self._changed(self.run.verify_report):
            self._report = read_report(self.run.verify_report)
            changed = True
        changed = self._read_events() or changed
        history = self._history.read()
        state = seen(self._state, self.run)
        beats = read_beats(self.run) if state.state not in ENDED else ()
        last = self._last
        if last is not None and not changed and (state, beats) == (last.state, last.beats) and history is last.history:
            return last
        self._last = self._make(state, history, beats)
        return self._last

    def _read_events(self) -> bool:
        """Take in what is new in the events; whether there was anything."""
        changed, more = False, True
        while more:
            events, more = self._follower.look()
            if self._follower.restarted:
                self._events = Gathered()
                changed = True
            if events:
                self._events.take(events)
                changed = True
        return changed

    def _make(self, state: RunState, history: tuple[Reading, ...], beats: tuple[Beat, ...]) -> Snapshot:
        found, last = self._events, self._last
        return Snapshot(
            version=last.version + 1 if last is not None else 1,
            state=state,
            plan=self._plan,
            phase=found.phase,
            phase_since=found.phase_since,
            ranks=tuple(found.ranks[rank] for rank in sorted(found.ranks)),
            train=found.train,
            last=found.last,
            evaluation=found.evaluation,
            series=found.curves.series(self._mfu(history)),
            peaks=dict(sorted(found.peaks.items())),
            history=history,
            beats=beats,
            findings=tuple(found.findings.values()),
            proof=found.proof(self._plan),
            saves=tuple(found.saves),
            errors=tuple(sorted(found.errors, key=lambda e: e.time)),
            report=self._report,
            eta_s=self._eta(state),
            price_per_hour=self._price(),
            skipped=self._follower.skipped,
        )

    def _price(self) -> float | None:
        resolved = self._plan.resolved if self._plan is not None else None
        if self._spec is None or self._spec.devices.price_per_hour is None:
            return None
        on_gpus = resolved is not None and resolved.device == "cuda"
        return self._spec.devices.price_per_hour * resolved.batch.gpus if resolved is not None and on_gpus else None

    def _mfu(self, history: tuple[Reading, ...]) -> float | None:
        resolved = self._plan.resolved if self._plan is not None else None
        gpus = history[-1].gpus if history else ()
        whole = (None if gpu.uuid.startswith("MIG") else gpu.name for gpu in gpus)  # a slice has no known peak
        return mfu_of_token(self._events.train, resolved, whole)

    def _eta(self, state: RunState) -> float | None:
        """None where the run does not train, or the number of its steps is not known."""
        if state.state not in ("running", "saving") or state.steps is None:
            return None
        return self._events.pace.left(ahead(state.steps, self._plan, self._spec))

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


def ahead(steps: int, plan: Plan | None, spec: RunSpec | None) -> Ahead:
    """What a run of `steps` steps has planned beside them: checkpoints, and evaluations at the end of each epoch unless
    something else was asked."""
    if plan is None or spec is None:
        return Ahead(steps=steps)
    tokens, samples = plan.tokens, plan.batch.total
    rows = tokens.evaluation if tokens is not None else 0
    epoch = math.ceil(tokens.rows / samples) if tokens is not None and rows else None
    return Ahead(
        steps=steps,
        save_every=spec.train.save_every,
        evaluate_every=spec.train.evaluate_every or epoch,
        evaluation_rows=rows,
        samples_a_step=samples,
    )


def read_report(path: Path) -> VerifyReport | None:
    """A verification as it was kept; None where there is none (or none that this version can read)."""
    try:
        return VerifyReport.model_validate_json(read_whole(path))
    except (OSError, ValidationError):
        return None


def _spec(run: RunPaths) -> RunSpec | None:
    try:
        return read_spec(run.spec)[0]
    except NotFound:
        return None


def _plan(run: RunPaths) -> Plan | None:
    try:
        return read_plan(run)
    except NotFound:
        return None
