"""A run's state, and the one table of the ways it may go."""

from __future__ import annotations

from typing import Literal

from zeroboard.contract.base import Record
from zeroboard.contract.problems import Problem
from zeroboard.contract.spec import MethodKind, Offload, Stage

State = Literal[
    "planned",
    "queued",
    "starting",
    "running",
    "saving",
    "verifying",
    "finished",
    "stopping",
    "stopped",
    "failed",
    "lost",
]
Phase = Literal["convert", "tokenise", "launch"]

TRANSITIONS: dict[State, frozenset[State]] = {
    "planned": frozenset({"queued", "starting", "failed", "stopped"}),
    "queued": frozenset({"starting", "stopped", "failed", "lost"}),
    "starting": frozenset({"running", "stopping", "failed", "lost"}),
    "running": frozenset({"saving", "verifying", "stopping", "failed", "lost"}),
    "saving": frozenset({"running", "verifying", "stopping", "failed", "lost"}),
    "stopping": frozenset({"verifying", "stopped", "failed", "lost"}),
    "verifying": frozenset({"finished", "stopped", "failed", "lost"}),
    "finished": frozenset(),
    "stopped": frozenset(),
    "failed": frozenset(),
    "lost": frozenset({"failed", "stopped", "finished", "verifying"}),
}
"""`lost`: the supervisor died; whoever adopts the run moves it on."""

ENDED: frozenset[State] = frozenset({"finished", "stopped", "failed"})
LIVE: frozenset[State] = frozenset({"queued", "starting", "running", "saving", "verifying", "stopping"})


def may_go(old: State, new: State) -> bool:
    """Whether a run may move from one state to another (staying is allowed)."""
    return old == new or new in TRANSITIONS[old]


class ProcessMark(Record):
    """A process, told from a later one with the same id by its start time."""

    pid: int
    started: float
    """Seconds since the epoch, as the operating system tells it."""


class RunState(Record):
    """`state.json`: small, replaced whole; enough for a line of the registry."""

    id: str
    name: str = ""
    state: State = "planned"
    created: float
    """Seconds since the epoch, like every time here."""
    started: float | None = None
    ended: float | None = None
    changed: float
    """When the state was entered."""
    phase: Phase | None = None
    phase_done: float | None = None
    """0 to 1 within the phase; None: not known."""
    supervisor: ProcessMark | None = None
    launcher: ProcessMark | None = None
    exit_code: int | None = None
    """Of the launcher; negative: a signal."""
    problem: Problem | None = None
    """Why it failed or was stopped."""
    stop: Literal["save", "discard"] | None = None
    """What was asked for, once a stop was."""
    model: str
    stage: Stage
    offload: Offload
    method: MethodKind
    ranks: int
    devices: tuple[str, ...]
    """Names of the locks that it takes: GPU UUIDs, or `cpu`."""
    step: int = 0
    steps: int | None = None
    loss: float | None = None
    plan_hash: str
    """Of the plan as it was previewed; Start runs no other one."""
