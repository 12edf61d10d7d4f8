"""What launchers and shells say about how processes ended: torchrun's report, DeepSpeed's launcher, bash, srun."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from zeroboard.diagnosis.reading import Line

MOST = 1024
"""Exits that are kept."""

_RANK = re.compile(r"\s+rank\s+: (\d+) ")
_EXITCODE = re.compile(r"\s+exitcode\s+: (-?\d+) \(pid: (\d+)\)")
_FAILED = re.compile(r".*failed \(exitcode: (-?\d+)\) local_rank: (\d+) \(pid: (\d+)\)")
_DEEPSPEED = re.compile(r".*exits with return code = (-?\d+)")
_PROCESS = re.compile(r".*Process (\d+) exits successfully")
_SHELL = re.compile(r".{0,80}\bexit(?:ed with)?(?: code| status)?[ :=]+(\d+)\W*$")
_WORD = r"(?P<word>Killed|Segmentation fault|Aborted|Bus error)"
_BASH = re.compile(rf"\S.*: line \d+: +\d+ {_WORD}")
_ALONE = re.compile(rf"{_WORD}(?: \(core dumped\))?$")
_SRUN = re.compile(r"srun: error: \S+: tasks? (\d+)\S*: (Killed|Segmentation fault|Aborted|Bus error|Terminated)")
_FATAL = re.compile(r"Fatal Python error: (Segmentation fault|Aborted|Bus error|Illegal instruction)")

_NAMES = {
    "Killed": signal.SIGKILL,
    "Segmentation fault": signal.SIGSEGV,
    "Aborted": signal.SIGABRT,
    "Bus error": signal.SIGBUS,
    "Illegal instruction": signal.SIGILL,
    "Terminated": signal.SIGTERM,
}
WORDS = (
    "exit", "Exit", " rank ", "Root Cause", "Failures:", "Killed", "Segmentation fault", "Aborted", "Bus error",
    "Illegal instruction", "srun: error",
)  # fmt: skip
"""One of these is in every line that this module reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """A process ended."""

    code: int
    """Negative: a signal."""
    rank: int | None
    pid: int | None
    line: Line
    order: int
    first: bool = False
    """torchrun's `first observed failure`."""

    @property
    def signal(self) -> int | None:
        return -self.code if self.code < 0 else None


class Launcher:
    """What one file says about exits."""

    def __init__(self) -> None:
        self.exits: list[Exit] = []
        self._first = False
        self._rank: int | None = None
        self._report = False

    def feed(self, line: Line, order: int) -> bool:
        """Take a line that holds one of `WORDS`; returns whether it was about an exit."""
        text = line.text
        if text.startswith(("Failures:", "Root Cause (first observed failure)")):
            self._report, self._first = True, text.startswith("Root")
            return True
        if self._report:
            if found := _RANK.match(text):
                self._rank = int(found.group(1))
                return True
            if found := _EXITCODE.match(text):
                self._add(int(found.group(1)), self._rank, int(found.group(2)), line, order, first=self._first)
                return True
        if found := _FAILED.match(text):
            self._add(int(found.group(1)), None, int(found.group(3)), line, order)
            return True
        if found := _DEEPSPEED.match(text):
            self._add(int(found.group(1)), None, None, line, order)
            return True
        if found := _PROCESS.match(text):
            self._add(0, None, int(found.group(1)), line, order)
            return True
        if found := _SRUN.match(text):
            self._add(-_NAMES[found.group(2)], int(found.group(1)), None, line, order)
            return True
        if found := _BASH.match(text) or _ALONE.match(text) or _FATAL.match(text):
            self._add(-_NAMES[found.group(1)], line.rank, None, line, order)
            return True
        if len(text) < 200 and (found := _SHELL.match(text)):
            code = int(found.group(1))
            self._add(128 - code if 128 < code < 160 else code, None, None, line, order)
            return True
        return False

    def _add(
        self, code: int, rank: int | None, pid: int | None, line: Line, order: int, *, first: bool = False
    ) -> None:
        if len(self.exits) < MOST:
            self.exits.append(Exit(code=code, rank=rank, pid=pid, line=line, order=order, first=first))


def signal_name(number: int) -> str:
    """`SIGKILL` of 9; the number where it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
