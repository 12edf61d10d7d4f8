"""The poller: one process a cache, which writes `now.json` about once a second as long as somebody wants it.

It never asks the driver itself: a child does (`child.Child`), and whatever becomes of that, the host's readings go on.
It leaves by itself when nobody has asked for a while, and when its cache is gone.
"""

from __future__ import annotations

import fcntl
import logging
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from zeroboard.monitor.child import Child, Patience
from zeroboard.monitor.host import reading
from zeroboard.paths import Paths

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds."""

    interval: float = 1.0
    """Between two readings."""
    idle: float = 30.0
    """That nobody asked before the poller leaves."""
    take: float = 1.0
    """That the lock is tried for: a client that looks holds it for a moment."""
    patience: Patience = field(default_factory=Patience)
    """With the child that asks NVML."""


def poll(paths: Paths, pace: Pace | None = None, *, popen: Callable[..., Any] = subprocess.Popen) -> int:
    """Poll until nobody wants it any more. Ends at once where another poller holds the lock of this cache."""
    pace = pace or Pace()
    try:
        lock = os.open(paths.poller_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except FileNotFoundError:
        return 0
    try:
        if not _take(lock, pace.take):
            return 0
        _Poller(paths, pace, lock, popen).live()
        os.utime(lock, (0, 0))  # so that the next one may be started at once
    finally:
        os.close(lock)
    return 0


def _take(lock: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        else:
            return True


class _Poller:
    def __init__(self, paths: Paths, pace: Pace, lock: int, popen: Callable[..., Any]) -> None:
        self.paths, self.pace = paths, pace
        self.child = Child(pace.interval, pace.patience, popen=popen)
        self._lock = os.fstat(lock)
        self._wanted: tuple[int, float] = (0, time.monotonic())
        self._ended = self._failing = False

    def live(self) -> None:
        previous = signal.signal(signal.SIGTERM, self._end)
        psutil.cpu_percent(interval=None)  # the first look only begins the measurement
        due = time.monotonic() + min(self.pace.interval, 0.1)
        try:
            while not self._ended:
                self._listen(due)
                if time.monotonic() < due:
                    continue
                due = max(due + self.pace.interval, time.monotonic())
                if not self._is_wanted() or not self._tell():
                    return
        finally:
            self.child.end()
            signal.signal(signal.SIGTERM, previous)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._ended = True

    def _listen(self, due: float) -> None:
        """Wait for the next reading, or for a line of the child."""
        self.child.tend()
        wait = max(due - time.monotonic(), 0)
        stream = self.child.stream
        if stream is None:
            time.sleep(wait)
        elif select.select([stream], [], [], wait)[0]:
            self.child.hear()

    def _is_wanted(self) -> bool:
        """Told by `wanted` being touched, and by our own clock: the system's may be set."""
        try:
            touched = self.paths.wanted.stat().st_mtime_ns
        except FileNotFoundError:
            return False
        now = time.monotonic()
        if touched != self._wanted[0]:
            self._wanted = touched, now
        return now - self._wanted[1] < self.pace.idle

    def _tell(self) -> bool:
        """Write the facts; whether there is any use in going on. A full disk is borne: the next reading tries again."""
        if not self._at_home():
            return False
        told = self.child.told()
        if told is None:  # the first answer is still to come, and without it a machine would seem to have no GPU
            return True
        try:
            facts = reading(self.paths, told, cpu_percent=psutil.cpu_percent(interval=None))
            _replace(self.paths.now, facts.model_dump_json(exclude_defaults=True))
        except OSError as error:
            if not self._failing:
                log.warning("nothing could be told: %s", error)
            self._failing = True
        else:
            self._failing = False
        return True

    def _at_home(self) -> bool:
        """Whether the lock that we hold is still the one that others look at."""
        try:
            found = self.paths.poller_lock.stat()
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == (self._lock.st_dev, self._lock.st_ino)


def _replace(path: Path, content: str) -> None:
    """Whole or not at all, but not synced: after a power cut nobody wants it. One writer, so one temporary name."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(content, encoding="utf-8")
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
