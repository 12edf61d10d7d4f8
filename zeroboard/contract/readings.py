"""Readings: one sample of the machine, a line of `readings.jsonl` in the run's folder. Missing is None, never 0."""

from __future__ import annotations

from zeroboard.contract.base import Record


class ProcessReading(Record):
    """A process on a GPU."""

    pid: int
    memory: int | None = None
    """Bytes."""
    ours: bool | None = False
    """It carries the run's mark. None: nobody knows, for in this container the driver's numbers name nobody."""


class GpuReading(Record):
    """One GPU of the run at one moment."""

    uuid: str
    index: int
    name: str | None = None
    memory_used: int | None = None
    """Bytes."""
    memory_total: int | None = None
    utilization: float | None = None
    """Per cent."""
    memory_utilization: float | None = None
    temperature: float | None = None
    """°C."""
    power: float | None = None
    """Watts."""
    power_limit: float | None = None
    clock_sm: int | None = None
    """MHz."""
    throttle: tuple[str, ...] | None = None
    """Words of `host.THROTTLES`."""
    processes: tuple[ProcessReading, ...] | None = None


class Reading(Record):
    """One sample: the run's GPUs and the host."""

    time: float
    """Seconds since the epoch."""
    gpus: tuple[GpuReading, ...] = ()
    nvml: str | None = None
    """Key of the sentence why NVML did not answer; None where it did, or where the run uses no GPU."""
    cpu_percent: float | None = None
    memory_used: int | None = None
    """Bytes of the host's memory, or of the control group's where that is the narrower one."""
    memory_total: int | None = None
    disk_free: int | None = None
    shm_free: int | None = None
