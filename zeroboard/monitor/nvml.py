"""The one gate to NVML (`nvidia-ml-py`, module `pynvml`).

Each reading is asked for by itself: one that does not come is None, and `errors` of that GPU says why; it never stops
its neighbours. Run it in a child process (`zeroboard.monitor`), for the driver's library may hang or crash.
Covered: no driver, a driver and library that differ, a lost GPU, unified memory, readings that are not supported.
Not covered: the slices of a GPU in MIG mode are not listed one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import psutil
import pynvml

from zeroboard.contract.host import GpuFacts, GpuProcess
from zeroboard.monitor.told import Probe

T = TypeVar("T")

WHY: dict[int, str] = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "nvml.no-library",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "nvml.driver-not-loaded",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "nvml.driver-mismatch",
    pynvml.NVML_ERROR_NO_PERMISSION: "nvml.no-permission",
}
"""Code of NVML → key of the sentence; any other code is `nvml.failed`."""

LOST = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})

FAILURES = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError)
"""Everything that the binding raises; the second is no child of the first."""


def probe() -> Probe:
    """Ask NVML about everything, once."""
    try:
        pynvml.nvmlInit()
    except FAILURES as error:
        return Probe(says=WHY.get(getattr(error, "value", 0), "nvml.failed"))
    try:
        driver = _ask(pynvml.nvmlSystemGetDriverVersion, {}, "driver")
        try:
            count = pynvml.nvmlDeviceGetCount()
        except FAILURES as error:
            return Probe(says=WHY.get(getattr(error, "value", 0), "nvml.failed"), driver=_text(driver))
        return Probe(driver=_text(driver), gpus=tuple(_gpu(index) for index in range(count)))
    finally:
        pynvml.nvmlShutdown()


def _gpu(index: int) -> GpuFacts:
    errors: dict[str, str] = {}
    handle = _ask(lambda: pynvml.nvmlDeviceGetHandleByIndex(index), errors, "handle")
    if handle is None:
        return GpuFacts(index=index, state="lost", errors=errors)

    def ask(field: str, call: Callable[..., T], *rest: Any) -> T | None:
        return _ask(lambda: call(handle, *rest), errors, field)

    memory = ask("memory", pynvml.nvmlDeviceGetMemoryInfo)
    rates = ask("utilization", pynvml.nvmlDeviceGetUtilizationRates)
    power = ask("power", pynvml.nvmlDeviceGetPowerUsage)
    limit = ask("power_limit", pynvml.nvmlDeviceGetEnforcedPowerLimit)
    capability = ask("compute_capability", pynvml.nvmlDeviceGetCudaComputeCapability)
    mig = ask("mig", pynvml.nvmlDeviceGetMigMode)
    processes = ask("processes", pynvml.nvmlDeviceGetComputeRunningProcesses)
    facts = GpuFacts(
        index=index,
        uuid=_text(ask("uuid", pynvml.nvmlDeviceGetUUID)),
        name=_text(ask("name", pynvml.nvmlDeviceGetName)),
        memory_total=memory.total if memory is not None else None,
        memory_used=memory.used if memory is not None else None,
        utilization=float(rates.gpu) if rates is not None else None,
        temperature=_number(ask("temperature", pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU)),
        power=power / 1000 if power is not None else None,
        power_limit=limit / 1000 if limit is not None else None,
        processes=tuple(_process(p) for p in processes) if processes is not None else None,
        compute_capability=f"{capability[0]}.{capability[1]}" if capability is not None else None,
        mig=mig[0] == pynvml.NVML_DEVICE_MIG_ENABLE if mig is not None else None,
        errors=errors,
    )
    return facts.model_copy(update={"state": _state(errors)})


def _state(errors: dict[str, str]) -> str:
    """`lost` where the card is gone, `partly` where it refuses what it should tell; not supporting is no fault."""
    words = set(errors.values())
    if words & {_word(code) for code in LOST}:
        return "lost"
    return "partly" if words - {_word(pynvml.NVML_ERROR_NOT_SUPPORTED), "FUNCTION_NOT_FOUND"} else "ok"


def _ask(call: Callable[[], T], errors: dict[str, str], field: str) -> T | None:
    """One reading; None where it does not come, and why in `errors`."""
    try:
        return call()
    except pynvml.NVMLError as error:
        errors[field] = _word(error.value)
    except pynvml.NVMLLibraryMismatchError:
        errors[field] = "FUNCTION_NOT_FOUND"
    return None


_WORDS = {
    value: name.removeprefix("NVML_ERROR_") for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")
}


def _word(code: int) -> str:
    return _WORDS.get(code, str(code))


def _text(value: Any) -> str | None:
    text: str | None = value.decode(errors="replace") if isinstance(value, bytes) else value
    return text


def _number(value: Any) -> float | None:
    return float(value) if value is not None else None


def _process(found: Any) -> GpuProcess:
    """Who that is, as far as this user may know; memory may be unknown to the driver."""
    user = command = None
    try:
        process = psutil.Process(found.pid)
        user = process.username()
        command = " ".join(process.cmdline())[:200] or process.name()
    except (psutil.Error, KeyError):  # in another container, ended, or of a user without a name here
        command = None
    return GpuProcess(pid=found.pid, user=user, command=command, memory=found.usedGpuMemory)
