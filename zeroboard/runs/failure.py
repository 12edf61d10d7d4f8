"""Why a run failed, as a problem: what the supervisor can tell from events, exit code and the launcher's log.

The state is decided by exit codes and events alone; the log is only read to explain it.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from zeroboard.contract.events import ErrorEvent
from zeroboard.contract.problems import Problem
from zeroboard.diagnosis.matching import of_exception
from zeroboard.files import open_regular

QUOTED = 1500
"""Characters of a message or of a log that a problem quotes."""
LOG_TAIL = 1 << 16

_ROOT = re.compile(
    r"Root Cause \(first observed failure\):.*?rank\s*:\s*(\d+).*?exitcode\s*:\s*(-?\d+)\s*\(pid:\s*(\d+)\)", re.DOTALL
)
"""What torchrun writes when a worker failed (torch/distributed/elastic/multiprocessing/errors)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the launcher ended."""

    exit_code: int | None
    """Negative: a signal. None: it was not our child, so nobody could tell us."""
    errors: tuple[ErrorEvent, ...]
    launcher_log: Path
    oom_kills: int = 0
    """How many processes the memory limit of this control group killed meanwhile."""


def explain(ending: Ending) -> Problem:
    """The first thing that went wrong."""
    tail = read_tail(ending.launcher_log)
    root = _ROOT.search(tail)
    if root is not None and int(root.group(2)) < 0:
        rank, number = int(root.group(1)), -int(root.group(2))
        if number != signal.SIGTERM and not any(e.rank == rank for e in ending.errors):
            return killed(number, rank=rank, oom_kills=ending.oom_kills)
    if ending.oom_kills and ending.errors and all(is_echo(error) for error in ending.errors):
        return killed(signal.SIGKILL, rank=None, oom_kills=ending.oom_kills)
    if ending.errors:
        return raised(ending.errors)
    if ending.exit_code is not None and ending.exit_code < 0:
        return killed(-ending.exit_code, rank=None, oom_kills=ending.oom_kills)
    return Problem(
        code="python-exception",
        says="run.failed.launcher",
        params={
            "code": "?" if ending.exit_code is None else ending.exit_code,
            "file": "launcher.log",
            "message": tail.strip()[-QUOTED:],
        },
    )


def is_echo(error: ErrorEvent) -> bool:
    """It only says that another rank was lost, or waited for one in vain."""
    return of_exception(f"{error.type}: {error.message}")[0].role in ("echo", "late")


def raised(errors: Iterable[ErrorEvent]) -> Problem:
    """The exception of the rank that failed first: the others only miss it."""
    first = min(errors, key=lambda e: e.time)
    full = "No space left on device" in first.message or "[Errno 28]" in first.message
    return Problem(
        code="disk-full" if full else "python-exception",
        says="run.failed.exception",
        params={
            "rank": first.rank,
            "type": first.type,
            "message": first.message[:QUOTED],
            "file": f"rank_{first.rank}.log",
        },
    )


def killed(number: int, *, rank: int | None, oom_kills: int) -> Problem:
    """A process was ended by a signal; SIGKILL without our doing is what a full memory looks like."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = str(number)
    out_of_memory = number == signal.SIGKILL
    which = "run.failed.oom" if out_of_memory and oom_kills else "run.failed.killed" if out_of_memory else None
    if rank is None and not oom_kills:
        which = "run.failed.launcher-signal"
    return Problem(
        code="host-oom" if out_of_memory and oom_kills else "killed-by-signal",
        says=which or "run.failed.signal",
        params={"signal": name, "rank": "?" if rank is None else rank},
    )


def read_tail(path: Path, size: int = LOG_TAIL) -> str:
    """The last bytes of a log as text; empty where there is none."""
    try:
        with open_regular(path) as stream:
            end = stream.seek(0, 2)
            stream.seek(max(0, end - size))
            return stream.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def oom_kills(path: Path = Path("/sys/fs/cgroup/memory.events")) -> int:
    """How often the memory limit of our control group killed a process, since it exists; 0 where nobody counts."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    counts = dict(line.split(maxsplit=1) for line in lines if " " in line)
    return int(counts.get("oom_kill", 0))
