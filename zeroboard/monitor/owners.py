"""Who a process is: user and command, looked up once for each process and kept while it lives."""

from __future__ import annotations

from collections.abc import Iterable

import psutil

COMMAND = 200
"""Most characters of a command."""


class Owners:
    """A process is told by its id and its start time, so that an id that was given anew is looked up anew."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, str | None, str | None]] = {}

    def of(self, pid: int) -> tuple[str | None, str | None]:
        """User and command, as far as this user may know; (None, None) in another container, or where it ended."""
        try:
            process = psutil.Process(pid)
            started = process.create_time()
        except (psutil.Error, ValueError):
            self._known.pop(pid, None)
            return None, None
        known = self._known.get(pid)
        if known is None or known[0] != started:
            known = self._known[pid] = (started, *_look(process))
        return known[1], known[2]

    def keep(self, pids: Iterable[int]) -> None:
        """Forget all others."""
        wanted = set(pids)
        self._known = {pid: known for pid, known in self._known.items() if pid in wanted}


def _look(process: psutil.Process) -> tuple[str | None, str | None]:
    user = command = None
    try:
        user = process.username()
        command = " ".join(process.cmdline())[:COMMAND] or process.name()
    except (psutil.Error, KeyError):  # ended, closed to us, or of a user without a name here
        return user, command
    return user, command
