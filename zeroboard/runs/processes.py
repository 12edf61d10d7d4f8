"""Which processes are alive: told by process id and start time, and by the mark that a run's children carry.

Covered: a process id that was given to another process since. Not covered: processes of other machines.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil

from zeroboard.contract.state import ProcessMark

MARK = "ZEROBOARD_RUN"
"""Variable in the environment of every child of a run; its value is the run's id."""

TOLERANCE = 2.0
"""Seconds by which two readings of one start time may differ: the system's clock is set now and then."""


def mark_of(pid: int) -> ProcessMark | None:
    """The mark of a running process; None where there is none of that id."""
    try:
        return ProcessMark(pid=pid, started=psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return None


def own_mark() -> ProcessMark:
    """The mark of this process."""
    return ProcessMark(pid=os.getpid(), started=psutil.Process().create_time())


def alive(mark: ProcessMark | None) -> bool:
    """Whether that very process still runs; a zombie does not."""
    if mark is None:
        return False
    try:
        process = psutil.Process(mark.pid)
        same = abs(process.create_time() - mark.started) <= TOLERANCE
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def carries(pid: int, run_id: str) -> bool:
    """Whether a process carries the run's mark; one that ended, or that is another user's, does not."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (OSError, ProcessLookupError):
        return False
    return f"{MARK}={run_id}".encode() in variables


def marked(run_id: str, *, since: float = 0.0) -> tuple[ProcessMark, ...]:
    """Every living process that carries the run's mark and was started after `since` (epoch seconds), oldest first.

    torch gives every worker a process group of its own, so the mark is the one thing that finds them all.
    """
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        if not carries(int(folder.name), run_id):
            continue
        mark = mark_of(int(folder.name))
        if mark is not None and mark.started >= since - TOLERANCE and alive(mark):
            found.append(mark)
    return tuple(sorted(found, key=lambda m: (m.started, m.pid)))


def send(mark: ProcessMark, number: int) -> None:
    """Send a signal to that very process, if it is still there."""
    if alive(mark):
        try:
            os.kill(mark.pid, number)
        except ProcessLookupError:  # ended between the two lines; nothing is left to signal
            return


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler of its own for a signal, so that the signal does not end it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except (OSError, ProcessLookupError):  # ended meanwhile, or no Linux: then nobody knows
        return False
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def owner(pid: int) -> str | None:
    """Who a process is, for people: its user and its name; None where it ended, or is hidden from us."""
    try:
        process = psutil.Process(pid)
        return f"{process.username()}: {process.name()}"
    except (psutil.Error, KeyError):  # KeyError: a user without a name here
        return None


def kill_marked(run_id: str, *, since: float = 0.0, wait: float = 5.0) -> tuple[ProcessMark, ...]:
    """SIGKILL to everything that carries the run's mark, until nothing is left or `wait` seconds are over.

    Returns what is still there.
    """
    until = time.monotonic() + wait
    left = marked(run_id, since=since)
    while left and time.monotonic() < until:
        for mark in left:
            send(mark, signal.SIGKILL)
        time.sleep(0.05)
        left = marked(run_id, since=since)
    return left
