"""What a run's events told so far, put together one by one and kept small."""

from __future__ import annotations

from collections.abc import Iterable

from zeroboard.contract.events import (
    ErrorEvent,
    EvalEvent,
    Event,
    FindingEvent,
    MemoryEvent,
    PhaseEvent,
    ProofEvent,
    RankEvent,
    SaveEvent,
    StepEvent,
    TrainEvent,
)
from zeroboard.contract.findings import Finding
from zeroboard.contract.plan import Plan, Promise
from zeroboard.contract.reports import Proof, RankProof
from zeroboard.runs.pace import Pace
from zeroboard.runs.series import Curves
from zeroboard.zero.promise import judge_proof, promise

SAVES = 200
"""How many of the last saves are kept."""
ERRORS = 1000
"""How many errors are kept, the first ones."""


class Gathered:
    """One for each reading of a run's events from their start."""

    def __init__(self) -> None:
        self.phase: PhaseEvent | None = None
        self.phase_since: float | None = None
        self.ranks: dict[int, RankEvent] = {}
        self.train: TrainEvent | None = None
        self.last: StepEvent | None = None
        self.evaluation: EvalEvent | None = None
        self.curves = Curves()
        self.pace = Pace()
        self.peaks: dict[int, int] = {}
        self.findings: dict[tuple[str, int | None], Finding] = {}
        self.measured: tuple[RankProof, ...] = ()
        self.saves: list[SaveEvent] = []
        self.errors: list[ErrorEvent] = []
        self._judged: tuple[object, Proof] | None = None

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case StepEvent():
                    self.last = event
                    self.curves.step(event, self.train.steps if self.train is not None else None)
                    self.pace.stepped(event)
                case EvalEvent():
                    self.evaluation = event
                    self.curves.evaluated(event)
                    self.pace.evaluated(event)
                case MemoryEvent():
                    self.peaks[event.rank] = max(event.peak, self.peaks.get(event.rank, 0))
                case PhaseEvent():
                    if self.phase is None or self.phase.phase != event.phase:
                        self.phase_since = event.time
                    self.phase = event
                case RankEvent():
                    self.ranks[event.rank] = event
                case TrainEvent():
                    self.train = event
                    self.pace.began()
                case ProofEvent():
                    self.measured = event.ranks
                case SaveEvent():
                    self.saves = [*self.saves[1 - SAVES :], event]
                    self.pace.saved(event)
                case ErrorEvent():
                    if len(self.errors) < ERRORS:
                        self.errors.append(event)
                case FindingEvent():
                    self._noticed(event)

    def _noticed(self, event: FindingEvent) -> None:
        """A finding that goes on stands where it stood, with its newest words."""
        identity = (event.finding.code, event.finding.rank)
        if event.cleared:
            self.findings.pop(identity, None)
        else:
            self.findings[identity] = event.finding

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
            planned_ranks=plan.batch.gpus,
        )
        self._judged = (known, judged)
        return judged


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
