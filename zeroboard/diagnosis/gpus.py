"""Readings of a run's GPUs → alerts: held down, idle, full, shared with others. What is not told raises none."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from zeroboard.contract.findings import Finding
from zeroboard.contract.problems import Scalar, Severity
from zeroboard.contract.readings import GpuReading, ProcessReading, Reading
from zeroboard.contract.spec import RunSpec
from zeroboard.diagnosis.latch import Latch
from zeroboard.diagnosis.remedies import remedies

GIB = 1 << 30
FULL, ROOM = 0.95, 0.93
"""Shares of the memory above which a GPU is full, and below which it is so no longer."""
IDLE, WORKS = 80.0, 85.0
"""Per cent of utilisation below which a GPU idles, and above which it does so no longer."""
WINDOW = 180.0
"""Seconds of training over which utilisation is averaged."""
GAP = 30.0
"""Seconds: two readings further apart tell nothing of the time between them."""
SMALL = 256 << 20
"""Bytes; what another process holds less of (a desktop, a monitor) hurts nobody."""

_THROTTLES: tuple[tuple[str, frozenset[str]], ...] = (
    ("gpu-throttled.hardware", frozenset({"hardware-slowdown", "power-brake"})),
    ("gpu-throttled", frozenset({"thermal-software", "thermal-hardware"})),
    ("gpu-throttled.power", frozenset({"power-cap"})),
)
"""The worst first. Clocks that somebody set, and those of boards that boost together, are no alert."""
_LASTS: dict[str, tuple[float, float]] = {
    "gpu-throttled": (30.0, 60.0),
    "gpu-memory-full": (10.0, 30.0),
    "gpu-foreign": (10.0, 20.0),
    "gpu-idle": (0.0, 0.0),
}
"""Seconds after which it appears, and after which it clears."""


@dataclass(slots=True)
class _Alert:
    latch: Latch
    key: str = ""
    finding: Finding | None = None


class Gpus:
    """The GPUs of one run."""

    def __init__(self, *, spec: RunSpec | None, gpus: tuple[str, ...]) -> None:
        self._spec, self._gpus = spec, gpus
        self._alerts: dict[tuple[str, str], _Alert] = {}
        self._used: dict[str, deque[tuple[float, float]]] = {}
        """UUID → (seconds, per cent), together about `WINDOW` of training."""
        self._idle: dict[str, tuple[int, float]] = {}
        """UUID → (index, mean per cent) of those that idle."""
        self._last: float | None = None

    def take(self, reading: Reading, *, working: bool, names: Mapping[int, str]) -> None:
        """One sample. `working`: the ranks are at their steps. `names`: process → who it is, for people."""
        passed = reading.time - self._last if self._last is not None else 0.0
        if passed < 0.0:  # the file was thinned, and is read again
            return
        self._last = reading.time
        for gpu in reading.gpus:
            self._throttled(gpu, reading.time)
            self._full(gpu, reading.time)
            self._foreign(gpu, reading.time, names)
            if working and 0.0 < passed <= GAP:
                self._use(gpu, passed)

    def forget(self) -> None:
        """No readings come any more, so nothing is known."""
        self._alerts.clear()
        self._used.clear()
        self._idle.clear()
        self._last = None

    def findings(self) -> list[Finding]:
        """What is so now, in the order of the ranks."""
        found = [alert.finding for alert in self._alerts.values() if alert.latch.on and alert.finding is not None]
        found.sort(key=lambda finding: (-1 if finding.rank is None else finding.rank, finding.code))
        return [*found, *self._idling()]

    def _see(self, code: str, gpu: GpuReading, key: str | None, now: float, make: Callable[[str], Finding]) -> None:
        """`key`: what is so (code, or code and variant); None: nothing. An alert stays as it began, or gets worse."""
        alert = self._alerts.setdefault((code, gpu.uuid), _Alert(Latch(*_LASTS[code])))
        if not alert.latch.see(key is not None, now):
            alert.key, alert.finding = "", None
        elif key is not None and (alert.finding is None or _worse(key, alert.key)):
            alert.key, alert.finding = key, make(key)

    def _throttled(self, gpu: GpuReading, now: float) -> None:
        reasons = set(gpu.throttle or ())
        key = next((key for key, words in _THROTTLES if words & reasons), None)

        def make(key: str) -> Finding:
            told: dict[str, Scalar] = {"temperature": _number(gpu.temperature), "power": _number(gpu.power)}
            return self._alert(key, gpu, told, severity="info" if key.endswith(".power") else "warning")

        self._see("gpu-throttled", gpu, key, now, make)

    def _full(self, gpu: GpuReading, now: float) -> None:
        full = share(gpu)
        known = self._alerts.get(("gpu-memory-full", gpu.uuid))
        edge = ROOM if known is not None and known.latch.on else FULL
        key = "gpu-memory-full" if full is not None and full > edge else None
        self._see("gpu-memory-full", gpu, key, now, lambda key: self._alert(key, gpu, memory(gpu)))

    def _foreign(self, gpu: GpuReading, now: float, names: Mapping[int, str]) -> None:
        others = foreign(gpu, names)
        key = "gpu-foreign" if others else None
        self._see("gpu-foreign", gpu, key, now, lambda key: self._alert(key, gpu, who(others, names)))

    def _use(self, gpu: GpuReading, passed: float) -> None:
        if gpu.utilization is None:
            return
        used = self._used.setdefault(gpu.uuid, deque())
        used.append((passed, gpu.utilization))
        whole = sum(seconds for seconds, _ in used)
        while whole - used[0][0] >= WINDOW:
            whole -= used.popleft()[0]
        mean = sum(seconds * percent for seconds, percent in used) / whole
        if whole >= WINDOW and mean < IDLE:
            self._idle.setdefault(gpu.uuid, (gpu.index, mean))
        elif mean >= WORKS:
            self._idle.pop(gpu.uuid, None)

    def _idling(self) -> list[Finding]:
        """One finding for all of them: what helps is the same."""
        if not self._idle:
            return []
        told = sorted(self._idle.values())
        params: dict[str, Scalar] = {
            "gpus": ", ".join(str(index) for index, _ in told),
            "percent": round(min(mean for _, mean in told)),
            "minutes": round(WINDOW / 60),
        }
        return [
            Finding(
                code="gpu-idle",
                severity="warning",
                says="finding.gpu-idle",
                params=params,
                remedies=remedies("gpu-idle", self._spec),
            )
        ]

    def _alert(
        self, key: str, gpu: GpuReading, params: dict[str, Scalar], *, severity: Severity = "warning"
    ) -> Finding:
        made = alert(key, gpu, params, gpus=self._gpus, spec=self._spec)
        return made.model_copy(update={"severity": severity})


def alert(
    key: str, gpu: GpuReading, params: dict[str, Scalar], *, gpus: tuple[str, ...], spec: RunSpec | None
) -> Finding:
    """The finding about one GPU; it is of the rank that computes on it. `key`: code, or code and variant."""
    return Finding(
        code=key.partition(".")[0],
        severity="warning",
        rank=gpus.index(gpu.uuid) if gpu.uuid in gpus else None,
        says=f"finding.{key}",
        params={"gpu": gpu.index, **params},
        remedies=remedies(key, spec),
    )


def share(gpu: GpuReading) -> float | None:
    """Of its memory what is used, 0 to 1; None: not told."""
    return gpu.memory_used / gpu.memory_total if gpu.memory_used is not None and gpu.memory_total else None


def foreign(gpu: GpuReading, names: Mapping[int, str]) -> tuple[ProcessReading, ...]:
    """Processes on the GPU that are not the run's and hold memory worth telling, the largest first.

    In a container the driver's numbers may mean nothing here, so that the run's own ranks look like strangers: where
    none of the processes is known to be ours, only those count that are known by name.
    """
    processes = gpu.processes or ()
    sure = any(process.ours for process in processes)
    others = (
        p for p in processes if p.ours is False and (p.memory is None or p.memory >= SMALL) and (sure or p.pid in names)
    )
    return tuple(sorted(others, key=lambda p: (-(p.memory or 0), p.pid)))


def memory(gpu: GpuReading) -> dict[str, Scalar]:
    """Its memory in GiB and per cent, for a sentence."""
    return {
        "used": round((gpu.memory_used or 0) / GIB, 1),
        "total": round((gpu.memory_total or 0) / GIB, 1),
        "percent": round(100 * (share(gpu) or 0.0)),
    }


def who(others: tuple[ProcessReading, ...], names: Mapping[int, str]) -> dict[str, Scalar]:
    """The largest of other processes, for a sentence."""
    first = others[0]
    return {
        "pid": first.pid,
        "who": names.get(first.pid, "?"),
        "memory": round(first.memory / GIB, 1) if first.memory is not None else "?",
        "count": len(others),
    }


def _worse(key: str, known: str) -> bool:
    order = [name for name, _ in _THROTTLES]
    return key in order and known in order and order.index(key) < order.index(known)


def _number(value: float | None) -> Scalar:
    return round(value) if value is not None else "?"
