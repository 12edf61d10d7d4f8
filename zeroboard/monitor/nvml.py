"""The one gate to NVML (`nvidia-ml-py`, module `pynvml`).

Each reading is asked for by itself: one that does not come is None, and `errors` of that GPU says why; it never stops
its neighbours. Run it in a child process (`zeroboard.monitor`), for the driver's library may hang or crash.
Covered: no driver, a driver and library that differ, an old driver, a lost GPU and its return, unified memory, readings
that are not supported, MIG. Not covered: processes of other PID namespaces are numbered as the driver numbers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Literal, TypeVar

import psutil
import pynvml

from zeroboard.contract.host import GpuFacts, GpuProcess, MigSlice
from zeroboard.monitor.owners import Owners
from zeroboard.monitor.told import Probe

T = TypeVar("T")

WHY: dict[int, str] = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "nvml.no-library",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "nvml.driver-not-loaded",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "nvml.driver-mismatch",
    pynvml.NVML_ERROR_NO_PERMISSION: "nvml.no-permission",
}
"""Code of NVML → key of the sentence; any other code is `nvml.failed`."""

FAILURES = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError)
"""Everything that the binding raises; the second is no child of the first."""

LOST = frozenset({"GPU_IS_LOST", "RESET_REQUIRED"})
REFUSED = frozenset({"NOT_SUPPORTED", "FUNCTION_NOT_FOUND"})
"""Words that will not change by asking again soon, and are no fault."""

THROTTLE: dict[int, str] = {
    pynvml.nvmlClocksThrottleReasonSwPowerCap: "power-cap",
    pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "power-brake",
    pynvml.nvmlClocksThrottleReasonSwThermalSlowdown: "thermal-software",
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "thermal-hardware",
    pynvml.nvmlClocksThrottleReasonHwSlowdown: "hardware-slowdown",
    pynvml.nvmlClocksThrottleReasonSyncBoost: "sync-boost",
    pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting: "clocks-set",
    pynvml.nvmlClocksThrottleReasonDisplayClockSetting: "clocks-set",
}
"""Bit of the mask → word of `host.THROTTLES`."""

ANEW = 30
"""Looks after which everything is asked again: handles, names, and what was refused."""
SELDOM = 5
"""Looks for which an answer holds that changes rarely and is nobody's first question."""


def probe() -> Probe:
    """Ask NVML about everything, once."""
    with Eyes() as eyes:
        return eyes.look()


class Eyes:
    """A session with NVML. What does not change is asked once in `ANEW` looks, so a look asks only for the rest."""

    def __init__(self) -> None:
        self._open = False
        self._driver: str | None = None
        self._cards: list[_Card] = []
        self._looks = 0
        self._owners = Owners()

    def __enter__(self) -> Eyes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close()

    def look(self) -> Probe:
        """One reading of every GPU; `says` is why not, where NVML as a whole does not answer."""
        try:
            if not self._open:
                pynvml.nvmlInit()
                self._open, self._looks = True, 0
            if self._looks % ANEW == 0:
                self._driver = _text(_ask(pynvml.nvmlSystemGetDriverVersion, {}, "driver"))
                count = pynvml.nvmlDeviceGetCount()
                self._cards = [_Card(index, self._owners, self._before(index)) for index in range(count)]
        except FAILURES as error:
            says = WHY.get(getattr(error, "value", 0), "nvml.failed")
            self._close()
            return Probe(says=says, driver=self._driver)
        self._looks += 1
        gpus = tuple(card.look() for card in self._cards)
        self._owners.keep(process.pid for gpu in gpus for process in gpu.processes or ())
        if self._looks % ANEW == 0 and any(gpu.state == "lost" for gpu in gpus):
            self._close()  # a card that was reset is seen by a new session only
        return Probe(driver=self._driver, gpus=gpus)

    def _before(self, index: int) -> dict[str, Any]:
        """What was known of a card: one that is lost is still called by its name."""
        return self._cards[index].identity if index < len(self._cards) else {}

    def _close(self) -> None:
        if self._open:
            self._open = False
            _ask(pynvml.nvmlShutdown, {}, "shutdown")


class _Card:
    def __init__(self, index: int, owners: Owners, before: dict[str, Any]) -> None:
        self.index = index
        self.known: dict[str, Any] = {}
        """Field → what it is and stays."""
        self._before = before
        self._owners = owners
        self._handle: Any = None
        self._refused: dict[str, str] = {}
        self._errors: dict[str, str] = {}
        self._seldom: dict[str, tuple[int, Any]] = {}
        self._looks = 0

    def look(self) -> GpuFacts:
        self._errors = dict(self._refused)
        self._looks += 1
        if self._handle is None:
            self._handle = _ask(lambda: pynvml.nvmlDeviceGetHandleByIndex(self.index), self._errors, "handle")
        facts: dict[str, Any] = {}
        if self._handle is not None:
            self._learn()
            for part in (self._memory, self._rates, self._clocks, self._mig):
                if not self._lost():  # a lost card answers nothing more, and some drivers take their time to say so
                    facts |= part()
        return GpuFacts(index=self.index, **self.identity, **facts, errors=dict(self._errors), state=self._state())

    @property
    def identity(self) -> dict[str, Any]:
        return {**self._before, **self.known}

    def _learn(self) -> None:
        """Ask for what stays, where it is not known yet."""
        self._keep("uuid", pynvml.nvmlDeviceGetUUID, make=_text)
        self._keep("name", pynvml.nvmlDeviceGetName, make=_text)
        self._keep("compute_capability", pynvml.nvmlDeviceGetCudaComputeCapability, make=lambda c: f"{c[0]}.{c[1]}")
        self._keep("power_limit", pynvml.nvmlDeviceGetEnforcedPowerLimit, make=lambda milliwatts: milliwatts / 1000)
        self._keep("clock_sm_max", pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM)
        self._keep("clock_memory_max", pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_MEM)

    def _memory(self) -> dict[str, Any]:
        """Version 2 keeps what the driver reserves apart; version 1, of old drivers, counts it as used."""
        memory = self.ask("memory_v2", lambda h: pynvml.nvmlDeviceGetMemoryInfo(h, version=pynvml.nvmlMemory_v2))
        second = self._errors.pop("memory_v2", None)
        if memory is None and second not in LOST:
            memory = self.ask("memory", pynvml.nvmlDeviceGetMemoryInfo)
        elif memory is None and second is not None:
            self._errors["memory"] = second
        if memory is not None:
            return {"memory_total": memory.total, "memory_used": memory.used, "memory_shared": False}
        if self._errors.get("memory") != "NOT_SUPPORTED":
            return {}
        host = psutil.virtual_memory()
        return {"memory_total": host.total, "memory_used": host.total - host.available, "memory_shared": True}

    def _rates(self) -> dict[str, Any]:
        rates = self.ask("utilization", pynvml.nvmlDeviceGetUtilizationRates)
        temperature = self.ask("temperature", pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU)
        power = self.ask("power", pynvml.nvmlDeviceGetPowerUsage)
        return {
            "utilization": float(rates.gpu) if rates is not None else None,
            "memory_utilization": float(rates.memory) if rates is not None else None,
            "temperature": float(temperature) if temperature is not None else None,
            "power": power / 1000 if power is not None else None,
        }

    def _clocks(self) -> dict[str, Any]:
        mask = self.ask("throttle", pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)
        words = None if mask is None else tuple(dict.fromkeys(word for bit, word in THROTTLE.items() if mask & bit))
        return {
            "clock_sm": self.ask("clock_sm", pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
            "clock_memory": self.seldom("clock_memory", pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM),
            "throttle": words,
        }

    def _mig(self) -> dict[str, Any]:
        """Processes, and the slices with theirs: in MIG mode the card itself knows of no process."""
        self._keep("mig", pynvml.nvmlDeviceGetMigMode, make=lambda mode: mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE)
        processes = self._processes(self.ask, self.seldom)
        if not self.known.get("mig"):
            return {"processes": processes}
        handles = self._slices()
        inner = [found for handle in handles if (found := self._processes(_asker(handle), _asker(handle))) is not None]
        if inner:
            processes = _merged(processes or (), *inner)
        return {"processes": processes, "slices": tuple(_slice(handle) for handle in handles)}

    def _slices(self) -> list[Any]:
        count = self.ask("slices", pynvml.nvmlDeviceGetMaxMigDeviceCount) or 0
        found = [_asker(self._handle)("slice", pynvml.nvmlDeviceGetMigDeviceHandleByIndex, n) for n in range(count)]
        return [handle for handle in found if handle is not None]  # a place without a slice is "not found"

    def _processes(self, ask: Callable[..., Any], seldom: Callable[..., Any]) -> tuple[GpuProcess, ...] | None:
        """Of compute and of graphics; one that does both is in both lists. None where compute is not told."""
        compute = ask("processes", pynvml.nvmlDeviceGetComputeRunningProcesses)
        graphics = seldom("graphics", pynvml.nvmlDeviceGetGraphicsRunningProcesses)
        if compute is None:
            return None
        return _merged(*([self._process(found)] for found in (*compute, *(graphics or ()))))

    def _process(self, found: Any) -> GpuProcess:
        user, command = self._owners.of(found.pid)
        return GpuProcess(pid=found.pid, user=user, command=command, memory=found.usedGpuMemory)

    def ask(self, field: str, call: Callable[..., T], *rest: Any) -> T | None:
        """A reading of this card; what it refuses is not asked again before everything is."""
        if field in self._refused:
            return None
        answer = _ask(lambda: call(self._handle, *rest), self._errors, field)
        if self._errors.get(field) in REFUSED:
            self._refused[field] = self._errors[field]
        return answer

    def seldom(self, field: str, call: Callable[..., Any], *rest: Any) -> Any:
        """A reading of this card that is asked for in every `SELDOM`th look."""
        until, answer = self._seldom.get(field, (0, None))
        if self._looks >= until:
            answer = self.ask(field, call, *rest)
            if answer is not None:
                self._seldom[field] = self._looks + SELDOM, answer
            else:
                self._seldom.pop(field, None)
        return answer

    def _keep(self, field: str, call: Callable[..., Any], *rest: Any, make: Callable[[Any], Any] = int) -> None:
        if field in self.known or self._lost():
            return
        answer = self.ask(field, call, *rest)
        if answer is not None:
            self.known[field] = make(answer)

    def _lost(self) -> bool:
        return not LOST.isdisjoint(self._errors.values())

    def _state(self) -> Literal["ok", "partly", "lost"]:
        """`lost` where the card is gone, `partly` where it refuses what it should tell; not supporting is no fault."""
        if self._lost():
            return "lost"
        return "partly" if set(self._errors.values()) - REFUSED else "ok"


def _asker(handle: Any) -> Callable[..., Any]:
    """Readings of a slice: what it does not tell is no fault of its card."""
    return lambda field, call, *rest: _ask(lambda: call(handle, *rest), {}, field)


def _slice(handle: Any) -> MigSlice:
    ask = _asker(handle)
    memory = ask("memory", lambda h: pynvml.nvmlDeviceGetMemoryInfo(h, version=pynvml.nvmlMemory_v2))
    memory = memory or ask("memory", pynvml.nvmlDeviceGetMemoryInfo)
    return MigSlice(
        uuid=_text(ask("uuid", pynvml.nvmlDeviceGetUUID)),
        name=_text(ask("name", pynvml.nvmlDeviceGetName)),
        memory_total=memory.total if memory is not None else None,
        memory_used=memory.used if memory is not None else None,
    )


def _merged(*lists: Iterable[GpuProcess]) -> tuple[GpuProcess, ...]:
    """Each process once, with the most memory that was told of it."""
    found: dict[int, GpuProcess] = {}
    for process in (process for processes in lists for process in processes):
        known = found.get(process.pid)
        if known is None or (process.memory or 0) > (known.memory or 0):
            found[process.pid] = process
    return tuple(found.values())


def _ask(call: Callable[[], T], errors: dict[str, str], field: str) -> T | None:
    """One reading; None where it does not come, and why in `errors`."""
    try:
        return call()
    except pynvml.NVMLError as error:
        errors[field] = _word(error.value)
    except pynvml.NVMLLibraryMismatchError:
        errors[field] = "FUNCTION_NOT_FOUND"
    return None


_WORDS: dict[int, str] = {
    value: name.removeprefix("NVML_ERROR_") for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")
}


def _word(code: int) -> str:
    return _WORDS.get(code, str(code))


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
