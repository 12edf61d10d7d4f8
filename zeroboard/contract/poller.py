"""The one poller process of a cache, as its clients meet it: what it told last, that it is wanted, how it is started.

Dashboard and supervisors may start it alike, and neither knows the room that it lives in: it is started by its argv and
its words are read from `Paths.now`. Nobody has to end it: it leaves when it is not wanted any more.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from zeroboard.contract.host import HostFacts
from zeroboard.files import read_whole
from zeroboard.paths import HOME, Paths

FRESH = 5.0
"""Seconds after which what was told stands for the present no more."""
AGAIN = 10.0
"""Seconds between two attempts to start a poller, whoever makes them."""


def argv(paths: Paths) -> list[str]:
    """The command that is the poller of a cache; where one runs already, another ends at once."""
    return [sys.executable, "-m", "zeroboard.monitor", "poll", "--cache", str(paths.root.absolute())]


def fresh(paths: Paths, *, age: float = FRESH) -> HostFacts | None:
    """What the poller told within the last `age` seconds; None where it told nothing, or nothing that can be read.

    Compiler, packages, locks and visible devices are not its business and are empty there.
    """
    try:
        changed = paths.now.stat().st_mtime
        if abs(time.time() - changed) > age:
            return None
        return HostFacts.model_validate_json(read_whole(paths.now))
    except (OSError, ValidationError):  # not there, not ours to read, or of another version
        return None


def ensure(paths: Paths, popen: Callable[..., Any]) -> bool:
    """Say that somebody wants the facts, and start the poller (detached) where none is; cheap enough for every second.

    Returns whether one runs or was started. False where the cache is not there, or cannot be written, or an attempt was
    made a moment ago.
    """
    try:
        if not paths.root.is_dir():
            return False
        paths.monitor.mkdir(exist_ok=True)
        paths.wanted.touch()
        return _running(paths.poller_lock) or _start(paths, popen)
    except OSError:  # a full disk, a cache that may only be read: whoever asks measures the machine himself
        return False


def _running(lock: Path) -> bool:
    """Whether somebody holds the lock. It is held for a moment to find out, which the poller's patience allows for."""
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _start(paths: Paths, popen: Callable[..., Any]) -> bool:
    lock = paths.poller_lock
    try:
        if 0 <= time.time() - lock.stat().st_mtime < AGAIN:
            return False
    except FileNotFoundError:
        pass
    lock.touch()
    with paths.poller_log.open("wb") as log, Path(os.devnull).open("rb") as nothing:
        process = popen(argv(paths), cwd=HOME, stdin=nothing, stdout=log, stderr=log, start_new_session=True)
    threading.Thread(target=process.wait, daemon=True, name="reap poller").start()  # no zombie stays with us
    return True
