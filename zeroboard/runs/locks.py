"""File locks: one a run (who may move its state) and one a device (who may train on it).

`flock` is let go by the kernel when its holder dies, however it dies, so a lock is never stale. The file says who
holds it; it is believed only while the lock is held, and is never deleted (a deleted lock file can be held twice).
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from zeroboard.contract.base import Record
from zeroboard.contract.state import ProcessMark
from zeroboard.files import read_whole, to_json
from zeroboard.paths import Paths
from zeroboard.runs.processes import alive, own_mark

PATIENCE = 1.0
"""Seconds in which a take is tried again while no living holder is named: whoever looks holds the lock for a moment."""


class Holder(Record):
    """Content of a lock file."""

    name: str
    """What is locked: a device's name, or `run`."""
    run: str
    """Id of the run that holds it; empty where it is just being written."""
    process: ProcessMark | None = None


@dataclass(slots=True)
class Lock:
    """A lock that this process may hold."""

    path: Path
    name: str
    handle: int | None = None

    def take(self, run_id: str) -> bool:
        """Take it for a run; False where somebody else holds it. Never waits longer than `PATIENCE`.

        Raises `FileNotFoundError` where the lock's folder is gone.
        """
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        until = time.monotonic() + PATIENCE
        while not _try(handle, fcntl.LOCK_EX):
            known = _content(self.path)
            if (known is not None and alive(known.process)) or time.monotonic() > until:
                os.close(handle)
                return False
            time.sleep(0.02)
        self.handle = handle
        content = Holder(name=self.name, run=run_id, process=own_mark())
        try:
            os.ftruncate(handle, 0)
            os.pwrite(handle, to_json(content.model_dump(mode="json")).encode(), 0)
        except OSError:
            self.release()
            raise
        return True

    def release(self) -> None:
        """Let it go; harmless where it is not held."""
        if self.handle is not None:
            os.ftruncate(self.handle, 0)
            os.close(self.handle)
            self.handle = None


def run_lock(folder_lock: Path) -> Lock:
    """The lock of a run's folder (`RunPaths.lock`), which it never makes: a run that was removed stays removed."""
    return Lock(folder_lock, "run")


def device_lock(paths: Paths, device: str) -> Lock:
    """The lock of a device: a GPU's UUID, or `cpu`."""
    paths.locks.mkdir(parents=True, exist_ok=True)
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", device)
    return Lock(paths.locks / f"{safe}.lock", device)


def holder(path: Path) -> Holder | None:
    """Who holds a lock file right now; None where nobody does."""
    try:
        handle = os.open(
            path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        )  # looking works in a cache that may only be read
    except FileNotFoundError:
        return None
    try:
        if _try(handle, fcntl.LOCK_SH):
            return None
    finally:
        os.close(handle)
    for _ in range(10):  # its holder may be between the lock and the line
        known = _content(path)
        if known is not None:
            return known
        time.sleep(0.01)
    return Holder(name=path.stem, run="")


def holders(paths: Paths) -> dict[str, str]:
    """Device → id of the run that holds it, for every device that is held."""
    found = [holder(path) for path in sorted(paths.locks.glob("*.lock"))]
    return {known.name: known.run for known in found if known is not None}


def _try(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _content(path: Path) -> Holder | None:
    try:
        return Holder.model_validate_json(read_whole(path))
    except (OSError, ValidationError):  # not there, or just being written
        return None
