"""The child that asks NVML: one line of JSON a reading, to whoever started it. It lives no longer than its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import TextIO

from zeroboard.monitor.nvml import Eyes, probe
from zeroboard.monitor.told import RETRY

PR_SET_PDEATHSIG = 1
"""`prctl`: a signal for us when our parent dies, for a call into the driver may never come back to notice it."""

TRIES = 30
"""Such attempts before this process ends, so that another one loads the library anew: the driver may be a new one."""


def once(out: TextIO) -> int:
    """Ask and tell."""
    out.write(probe().model_dump_json() + "\n")
    return 0


def bind_to_parent() -> bool:
    """Have this process killed when its parent dies; False where the parent died meanwhile."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent


def forever(out: TextIO, interval: float, *, retry: float = RETRY) -> int:
    """Ask every `interval` seconds until nobody reads any more, or NVML has not answered for long."""
    if not bind_to_parent():
        return 0
    failed = 0
    with Eyes() as eyes:
        due = time.monotonic()
        while failed < TRIES:
            told = eyes.look()
            failed = 0 if told.says is None else failed + 1
            try:
                out.write(told.model_dump_json(exclude_defaults=True) + "\n")
                out.flush()
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())  # for what Python flushes at its end
                return 0
            due = max(due + (interval if told.says is None else max(interval, retry)), time.monotonic())
            time.sleep(due - time.monotonic() if due > time.monotonic() else 0)
    return 0
