"""Events: what the engine and the supervisor say, one JSON object a line of `events.jsonl`, append only."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from zeroboard.contract.base import Record
from zeroboard.contract.findings import Finding
from zeroboard.contract.problems import Problem
from zeroboard.contract.reports import RankProof
from zeroboard.contract.state import Phase, State


class _Event(Record):
    seq: int
    """Counts up for each writer (rank)."""
    time: float
    """Seconds since the epoch."""
    rank: int
    """-1: the supervisor."""


class StateEvent(_Event):
    """The run entered a state."""

    kind: Literal["state"] = "state"
    state: State
    problem: Problem | None = None


class PhaseEvent(_Event):
    """Progress within a phase of `starting` (or of the verification)."""

    kind: Literal["phase"] = "phase"
    phase: Phase | Literal["load", "verify"]
    done: float | None = None
    """0 to 1; None: not known."""
    says: str | None = None
    params: dict[str, str | int | float] = {}


class RankEvent(_Event):
    """A rank is there."""

    kind: Literal["rank"] = "rank"
    host: str
    device: str
    pid: int
    world_size: int


class TrainEvent(_Event):
    """Training begins; from here the number of steps is known."""

    kind: Literal["train"] = "train"
    steps: int
    epochs: float
    rows: int
    trainable_parameters: int
    parameters: int


class StepEvent(_Event):
    """An optimizer step was made (every `log_every` of them)."""

    kind: Literal["step"] = "step"
    step: int
    epoch: float
    loss: float | None
    """None: it was NaN or infinite."""
    learning_rate: float
    grad_norm: float | None = None
    tokens_per_s: float | None = None
    """Tokens through all ranks, padding not counted."""
    samples_per_s: float | None = None
    step_time: float
    """Seconds."""


class EvalEvent(_Event):
    """The evaluation split was gone through."""

    kind: Literal["eval"] = "eval"
    step: int
    epoch: float
    loss: float | None
    """Mean over its learned tokens. None: it was NaN or infinite."""
    rows: int
    seconds: float


class MemoryEvent(_Event):
    """The most memory that this rank has held so far; said anew only where it grew."""

    kind: Literal["memory"] = "memory"
    step: int
    peak: int
    """Bytes: the allocator's peak on a GPU, the process's largest resident size on the CPU."""


class FindingEvent(_Event):
    """Something was noticed while the run goes on, or is over (`cleared`). Its identity is code and rank."""

    kind: Literal["finding"] = "finding"
    finding: Finding
    cleared: bool = False


class ProofEvent(_Event):
    """What the ranks hold after the first optimizer step."""

    kind: Literal["proof"] = "proof"
    ranks: tuple[RankProof, ...]


class SaveEvent(_Event):
    """A checkpoint or the result is being written, or is whole on disk."""

    kind: Literal["save"] = "save"
    step: int
    path: str
    done: bool


class ErrorEvent(_Event):
    """An exception ended this rank."""

    kind: Literal["error"] = "error"
    type: str
    message: str
    traceback: str


class EndEvent(_Event):
    """The engine left its training loop in good order."""

    kind: Literal["end"] = "end"
    reason: Literal["completed", "stopped", "discarded"]
    step: int


Event = Annotated[
    StateEvent
    | PhaseEvent
    | RankEvent
    | TrainEvent
    | StepEvent
    | EvalEvent
    | MemoryEvent
    | ProofEvent
    | FindingEvent
    | SaveEvent
    | ErrorEvent
    | EndEvent,
    Field(discriminator="kind"),
]

EVENT: TypeAdapter[Event] = TypeAdapter(Event)
"""Reads a line: `EVENT.validate_json(line)`."""
