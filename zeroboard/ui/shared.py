"""What all browsers of this process share: one reader a run, the machine's facts, the list of runs, open chats."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from zeroboard.chat.session import ChatSession
from zeroboard.contract.host import HostFacts
from zeroboard.contract.state import LIVE, RunState
from zeroboard.paths import Paths
from zeroboard.runs.snapshot import Snapshot, SnapshotReader
from zeroboard.services import host as hosts
from zeroboard.services import results, runs

READERS = 32
"""Most readers that are kept; the one that was asked least lately goes first."""

T = TypeVar("T")


class Fresh(Generic[T]):
    """A value that is made again when it is older than `seconds`; one caller makes it, the others wait."""

    def __init__(self, make: Callable[[], T], seconds: float) -> None:
        self._make, self._seconds = make, seconds
        self._lock = threading.Lock()
        self._value: T | None = None
        self._until = 0.0

    def get(self) -> T:
        with self._lock:
            if self._value is None or time.monotonic() >= self._until:
                self._value = self._make()
                self._until = time.monotonic() + self._seconds
            return self._value

    def forget(self) -> None:
        """Made again at the next look."""
        with self._lock:
            self._until = 0.0


@dataclass(slots=True)
class _Kept:
    reader: SnapshotReader
    lock: threading.Lock = field(default_factory=threading.Lock)


class Shared:
    """One for a process."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.host: Fresh[HostFacts] = Fresh(lambda: hosts.facts(paths), 4.0)
        self.runs: Fresh[tuple[RunState, ...]] = Fresh(lambda: runs.list_runs(paths), 1.5)
        self.chats = Chats()
        self._readers: dict[str, _Kept] = {}
        self._lock = threading.Lock()

    def live(self) -> tuple[RunState, ...]:
        """Runs that are going on, newest first."""
        return tuple(run for run in self.runs.get() if run.state in LIVE)

    def snapshot(self, run_id: str) -> Snapshot:
        """Where a run stands; the same object as long as nothing changed. Raises `NotFound`."""
        with self._lock:
            kept = self._readers.pop(run_id, None) or _Kept(runs.reader(self.paths, run_id))
            self._readers[run_id] = kept
            while len(self._readers) > READERS:
                self._readers.pop(next(iter(self._readers)))
        with kept.lock:
            return kept.reader.read()


class Chats:
    """One loaded model for each browser session; a second one puts the first away."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, ChatSession]] = {}
        self._lock = threading.Lock()

    def get(self, owner: str, path: str, base: Path | None) -> ChatSession:
        """The session's model, loaded when it is not yet (seconds)."""
        with self._lock:
            held = self._open.get(owner)
        if held is not None and held[0] == path:
            return held[1]
        self.close(owner)
        chat = results.open_chat(Path(path), base)
        with self._lock:
            self._open[owner] = (path, chat)
        return chat

    def held(self, owner: str) -> str | None:
        """The folder of the model that is loaded for this browser."""
        with self._lock:
            held = self._open.get(owner)
        return held[0] if held else None

    def stop(self, owner: str) -> None:
        """Ends the answer that is being written, if there is one."""
        with self._lock:
            held = self._open.get(owner)
        if held is not None:
            held[1].stop()

    def close(self, owner: str) -> None:
        """Ends the engine process, which gives its memory back."""
        with self._lock:
            held = self._open.pop(owner, None)
        if held is not None:
            held[1].close()

    def close_all(self) -> None:
        with self._lock:
            owners = list(self._open)
        for owner in owners:
            self.close(owner)
