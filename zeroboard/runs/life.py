"""The state of a run, moved by the one who holds its lock.

Every transition is checked against the one table, written whole to `state.json` and said as an event. A write that
fails (a full disk) loses nothing: what is true stays in memory and is written again until it is on disk. For the end of
a run some room is set aside before, so that a disk which stays full does not hide it.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zeroboard.contract.events import Event, FindingEvent, PhaseEvent, StateEvent
from zeroboard.contract.findings import Finding
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.contract.state import ENDED, Phase, RunState, State, may_go
from zeroboard.files import DISK_FULL, append_line, to_json, write_atomic
from zeroboard.paths import RunPaths

log = logging.getLogger(__name__)

QUIET = 1.0
"""Seconds between two writes of mere progress; transitions are written at once."""

RESERVE = 64 << 10
"""Bytes set aside for the last events and the last state."""

SUPERVISOR = -1
"""The rank that the supervisor's events carry."""


class Life:
    """The state of one run. Make it only while holding the run's lock."""

    def __init__(
        self,
        run: RunPaths,
        state: RunState,
        *,
        write: Callable[[Path, str], None] = write_atomic,
        append: Callable[[Path, str], None] = append_line,
    ) -> None:
        self.run = run
        self.state = state
        self.failing_since: float | None = None
        """Since when (monotonic seconds) nothing can be written; None: all is well."""
        self._folder = _identity(run.folder)
        self._seq = 0
        self._write = write
        self._append = append
        self._dirty = False
        self._written = 0.0
        self._events: deque[Event] = deque()

    def resume(self, seq: int) -> None:
        """Count on from the last event that a supervisor before us wrote."""
        self._seq = seq

    def set_aside(self) -> None:
        """Takes the room for the end; without it (a full disk) the end waits for room like everything else."""
        try:
            write_atomic(self.run.reserve, os.urandom(RESERVE))  # zeros would take no room where a disk compresses
        except OSError as error:
            log.warning("cannot set room aside: %s", error)

    @property
    def gone(self) -> bool:
        """Somebody removed the run's folder; what ranks may have made again under its name is another one."""
        found = _identity(self.run.folder)
        return found is None or found != self._folder

    def go(self, new: State, *, problem: Problem | None = None, **changes: Any) -> None:
        """Enter a state. Raises `ValueError` where the table does not allow it."""
        old = self.state.state
        if not may_go(old, new):
            raise ValueError(f"a run cannot go from {old} to {new}")
        now = time.time()
        if new in ENDED:
            changes["ended"] = now
        if problem is not None:
            changes["problem"] = problem
        self.state = self.state.model_copy(update={"state": new, "changed": now, **changes})
        log.info("state: %s -> %s%s", old, new, f" ({problem.code} {problem.params})" if problem else "")
        if new != old:
            self._events.append(
                StateEvent(seq=self._next(), time=now, rank=SUPERVISOR, state=new, problem=self.state.problem)
            )
        self._dirty = True
        self.flush(force=True)

    def note(self, **changes: Any) -> None:
        """Change what is known within the state (step, loss, progress); written at the next `flush`."""
        if any(getattr(self.state, key) != value for key, value in changes.items()):
            self.state = self.state.model_copy(update=changes)
            self._dirty = True

    def phase(
        self,
        phase: Phase | None,
        done: float | None = None,
        *,
        says: str | None = None,
        params: dict[str, Scalar] | None = None,
    ) -> None:
        """Progress within a phase of `starting`, into the state and as an event."""
        new = phase != self.state.phase
        if not new and done == self.state.phase_done:
            return
        self.note(phase=phase, phase_done=done)
        if phase is not None:
            self.say_phase(phase, done, says=says, params=params)
        self.flush(force=new)

    def say_phase(
        self,
        phase: Any,
        done: float | None = None,
        *,
        says: str | None = None,
        params: dict[str, Scalar] | None = None,
    ) -> None:
        """A phase event without a change of state (the verification's progress)."""
        known = {key: value for key, value in (params or {}).items() if value is not None}
        event = PhaseEvent(
            seq=self._next(), time=time.time(), rank=SUPERVISOR, phase=phase, done=done, says=says, params=known
        )
        self._events.append(event)

    def say_finding(self, finding: Finding, *, cleared: bool = False) -> None:
        """Something was noticed, or is over; written at the next `flush`."""
        self._events.append(
            FindingEvent(seq=self._next(), time=time.time(), rank=SUPERVISOR, finding=finding, cleared=cleared)
        )

    def flush(self, *, force: bool = False) -> bool:
        """Write what is not on disk yet (progress at most every `QUIET` seconds); whether all of it is there now."""
        if not self._dirty and not self._events:
            return True
        if not force and self.failing_since is None and time.monotonic() - self._written < QUIET:
            return False
        try:
            if self.gone:  # `write_atomic` would make it again
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.run.folder))
            while self._events:
                self._append(self.run.events, self._events[0].model_dump_json())
                self._events.popleft()
            if self._dirty:
                self._write(self.run.state, to_json(self.state.model_dump(mode="json")))
                self._dirty = False
        except OSError as error:
            if error.errno in DISK_FULL and self.state.state in ENDED and self._give_up_reserve():
                return self.flush(force=True)
            if self.failing_since is None:
                self.failing_since = time.monotonic()
                log.error("cannot write the state: %s", error)
            return False
        self.failing_since = None
        self._written = time.monotonic()
        if self.state.state in ENDED:
            self._give_up_reserve()
        return True

    def _give_up_reserve(self) -> bool:
        """Whether it could be."""
        try:
            self.run.reserve.unlink()
        except OSError:
            return False
        return True

    def settle(self, *, patience: float) -> bool:
        """Write until it is on disk, for at most `patience` seconds or while the folder is there; whether it is."""
        until = time.monotonic() + patience
        while not self.flush(force=True):
            if self.gone or time.monotonic() > until:
                return False
            time.sleep(0.5)
        return True

    def _next(self) -> int:
        self._seq += 1
        return self._seq


def _identity(folder: Path) -> tuple[int, int] | None:
    """What a folder is, whatever its name; None where it is gone."""
    try:
        facts = folder.stat()
    except FileNotFoundError:
        return None
    return facts.st_dev, facts.st_ino
