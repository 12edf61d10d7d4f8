"""Stacks of ranks that hang: asked for by a signal that each of them answers into its own log, without ending.

Covered: only processes of this machine that carry the run's mark, have said that they are a rank, have given a beat and
have a handler for the signal. Not covered: ranks of other machines; one that is stopped answers when it goes on.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from pathlib import Path

from zeroboard.contract.beats import Beat
from zeroboard.contract.events import RankEvent
from zeroboard.contract.findings import Evidence
from zeroboard.contract.state import ProcessMark
from zeroboard.diagnosis.stacks import innermost
from zeroboard.files import read_lines
from zeroboard.paths import RunPaths
from zeroboard.runs.processes import catches, marked, send

MOST = 3
"""How often a run is asked: a training that stalls again and again fills its logs otherwise."""


class Stacks:
    """The stacks of one run's ranks."""

    def __init__(self, run: RunPaths) -> None:
        self._run = run
        self._asked = 0
        self._since: dict[int, int] = {}
        """Rank → the size of its log when it was asked; those that have not answered yet."""
        self._found: dict[int, Evidence] = {}

    def ask(self, ranks: Iterable[RankEvent], beats: Sequence[Beat], *, since: float) -> None:
        """Signal every rank that will bear it. `since`: when the launcher was started, in seconds since the epoch."""
        self._since, self._found = {}, {}
        if self._asked >= MOST:
            return
        self._asked += 1
        living = {mark.pid: mark for mark in marked(self._run.id, since=since)}
        for rank in ranks:
            mark = living.get(rank.pid)
            if mark is None or not answers(rank, beats, mark):
                continue
            log = self._run.rank_log(rank.rank)
            self._since[rank.rank] = log.stat().st_size if log.is_file() else 0
            send(mark, signal.SIGUSR1)

    def read(self) -> dict[int, Evidence]:
        """Rank → the innermost frame of its main thread, of all that have answered so far."""
        for rank, start in list(self._since.items()):
            log = self._run.rank_log(rank)
            found = innermost(read_lines(log, start).lines)
            if found is None:
                continue
            at, text = found
            name = log.relative_to(self._run.folder).as_posix()
            self._found[rank] = Evidence(file=name, line=_lines(log, start) + at + 1, text=text)
            del self._since[rank]
        return self._found


def answers(rank: RankEvent, beats: Sequence[Beat], mark: ProcessMark) -> bool:
    """Whether that process is the rank, and has said that SIGUSR1 does not end it."""
    ours = any(b.rank == rank.rank and b.pid == rank.pid == mark.pid and b.host == rank.host for b in beats)
    return ours and catches(mark.pid, signal.SIGUSR1)


def _lines(path: Path, size: int) -> int:
    """How many lines end within the first `size` bytes."""
    count = 0
    with path.open("rb") as stream:
        while size > 0 and (chunk := stream.read(min(size, 1 << 20))):
            count += chunk.count(b"\n")
            size -= len(chunk)
    return count
