"""Beats: a small file of each rank, written over and over, that tells how far it is and that it lives.

A rank whose process lives writes at least every `BEAT_EVERY` seconds, even where its training hangs: then `time` goes
on and `moved` stands still. A rank that is dead, stopped or wedged within a library leaves both standing.
"""

from __future__ import annotations

from typing import Literal

from pydantic import ValidationError

from zeroboard.contract.base import Record
from zeroboard.files import read_whole
from zeroboard.paths import RunPaths

Where = Literal["start", "load", "forward", "backward", "optimizer", "save", "eval", "wait", "end"]
"""What a rank is at. `start`: importing, process group, model; `load`: the next samples; `wait`: for the other ranks.

A hint, not a trace: DeepSpeed's optimizer works within `backward`, and a rank that waits within a collective of
DeepSpeed or DDP is still at what called it.
"""

BEAT_EVERY = 5.0
"""Seconds: a beat that is older than a few of these comes from a process that no longer runs."""


class Beat(Record):
    """The last sign of life of one rank.

    A rank that has given one takes SIGUSR1: it writes the stack of every thread into its log and goes on.
    """

    rank: int
    host: str
    pid: int
    step: int
    """Optimizer steps that are done."""
    where: Where
    moves: int
    """Counts every change of `where`, alike on all ranks: of ranks that hang, the one with the fewest is behind."""
    moved: float
    """When the training itself last moved on, in seconds since the epoch."""
    time: float
    """When this was written, in seconds since the epoch."""


def read_beats(run: RunPaths) -> tuple[Beat, ...]:
    """The last beat of every rank that has given one, in the order of the ranks; what cannot be read is left out."""
    found: list[Beat] = []
    for path in run.beats.glob("rank_*.json"):
        try:
            found.append(Beat.model_validate_json(read_whole(path)))
        except (OSError, ValidationError):  # the run is being removed; or a beat of another version
            continue
    return tuple(sorted(found, key=lambda beat: beat.rank))
