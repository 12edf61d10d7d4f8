"""What all browsers of this process share: one reader a run, the machine's facts, the list of runs, open chats."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from zeroboard.contract.findings import Diagnosis
from zeroboard.contract.host import HostFacts
from zeroboard.contract.reports import Verdict
from zeroboard.contract.state import ENDED, LIVE, RunState
from zeroboard.errors import BrokenFile, NotFound
from zeroboard.paths import Paths
from zeroboard.runs.snapshot import Snapshot, SnapshotReader
from zeroboard.services import diagnose, logs, results, runs
from zeroboard.services import host as hosts
from zeroboard.services.fetching import Fetching
from zeroboard.services.judging import Judging
from zeroboard.services.logs import LogFollower
from zeroboard.ui.chats import Chats
from zeroboard.ui.drawn import Memo

ADOPT = 10.0
"""Seconds between two attempts to take up runs whose supervisor died."""
LOGS = 64
"""Most logs that are followed; the one that was looked at least lately goes first."""
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

    def __init__(self, paths: Paths, *, login: bool = False) -> None:
        self.paths = paths
        self.login = login
        """Whether one has to log in, and so can log out."""
        self.host: Fresh[HostFacts] = Fresh(self._host, 1.0)
        self._measured: Fresh[HostFacts] = Fresh(lambda: hosts.measure(paths), 4.0)
        self.runs: Fresh[tuple[RunState, ...]] = Fresh(self._list, 1.5)
        self.judging = Judging(paths)
        self.fetching = Fetching(paths)
        self.chats = Chats(paths)
        self._pictures: Memo[str] = Memo()
        self._logs: Memo[LogFollower] = Memo(LOGS)
        self._diagnoses: Memo[Diagnosis] = Memo()
        self._rates: Memo[float | None] = Memo()
        self._readers: dict[str, _Kept] = {}
        self._verdicts: dict[tuple[str, float], Verdict | None] = {}
        self._lock = threading.Lock()
        self._adopt_from = 0.0

    def _host(self) -> HostFacts:
        """What the poller tells, which looking keeps alive; until it does, and where it cannot, what is measured."""
        hosts.ensure(self.paths)
        return hosts.watched(self.paths) or self._measured.get()

    def _list(self) -> tuple[RunState, ...]:
        """All runs; one whose supervisor died is taken up by a new one, whoever looks."""
        found = runs.list_runs(self.paths)
        if any(run.state == "lost" for run in found) and time.monotonic() >= self._adopt_from:
            self._adopt_from = time.monotonic() + ADOPT
            runs.adopt_orphans(self.paths)
        return found

    def live(self) -> tuple[RunState, ...]:
        """Runs that are going on, newest first."""
        return tuple(run for run in self.runs.get() if run.state in LIVE)

    def verdicts(self) -> dict[str, Verdict | None]:
        """Run's id → what its verification said, for those that have ended; each is read once."""
        ended = [run for run in self.runs.get() if run.state in ENDED]
        known = self._verdicts
        self._verdicts = {
            key: known[key] if key in known else results.verdict(self.paths, key[0])
            for key in ((run.id, run.changed) for run in ended)
        }
        return {run_id: verdict for (run_id, _), verdict in self._verdicts.items()}

    def forget_verdicts(self) -> None:
        """Read again at the next look: something was verified anew."""
        self._verdicts = {}

    def snapshot(self, run_id: str) -> Snapshot:
        """Where a run stands; the same object as long as nothing changed. Raises `NotFound`."""
        with self._lock:
            kept = self._readers.pop(run_id, None) or _Kept(runs.reader(self.paths, run_id))
            self._readers[run_id] = kept
            while len(self._readers) > READERS:
                self._readers.pop(next(iter(self._readers)))
        with kept.lock:
            return kept.reader.read()

    def log(self, run_id: str, name: str) -> LogFollower:
        """A log that is followed for all browsers, so that each part of it is read once. Raises `NotFound`."""
        file = logs.path(self.paths, run_id, name)
        return self._logs.get(f"{run_id} {name}", (), lambda: LogFollower(file))

    def drawn(self, slot: str, parts: tuple[object, ...], make: Callable[[], str]) -> str:
        """A picture that is drawn once for all browsers, and again when one of the `parts` it shows is another one."""
        return self._pictures.get(slot, parts, make)

    def ours(self, hostname: str) -> frozenset[int]:
        """The processes on this host that train in runs which are going on."""
        found: set[int] = set()
        for run in self.live():
            try:
                ranks = self.snapshot(run.id).ranks
            except (NotFound, BrokenFile):  # removed or damaged between the two looks
                continue
            found.update(rank.pid for rank in ranks if rank.host == hostname)
        return frozenset(found)

    def findings(self, shown: Snapshot) -> Diagnosis:
        """Of a run that failed, why; of any other, what was noticed while it runs. The same object until that changes.

        The logs of a failed run are looked into once.
        """
        state = shown.state
        if state.state in ("failed", "lost"):
            run = self.paths.run(state.id)
            parts = (state.state, state.changed)
            return self._diagnoses.get(state.id, parts, lambda: diagnose.of_run(run, shown, glance=True))
        return self._diagnoses.get(state.id, (shown.findings,), lambda: Diagnosis(root=None, findings=shown.findings))

    def rate(self, run_id: str) -> float | None:
        """The learning rate that was asked of a run; None where its settings are gone."""

        def read() -> float | None:
            spec = diagnose.asked(self.paths.run(run_id))
            return spec.train.learning_rate if spec is not None else None

        return self._rates.get(run_id, (), read)
