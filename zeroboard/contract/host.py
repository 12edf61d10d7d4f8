"""Facts about the machine, as a value: measured by `monitor`, handed to `planning`, shown by the faces."""

from __future__ import annotations

from typing import Literal

from zeroboard.contract.base import Record


class GpuProcess(Record):
    """A process that holds memory of a GPU."""

    pid: int
    user: str | None = None
    command: str | None = None
    memory: int | None = None
    """Bytes."""


class GpuFacts(Record):
    """One GPU as NVML tells it. A reading that the driver does not give is None; `errors` says why."""

    index: int
    """NVML's order, which is the PCI bus order."""
    uuid: str | None = None
    name: str | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    utilization: float | None = None
    """Per cent."""
    temperature: float | None = None
    """°C."""
    power: float | None = None
    """Watts."""
    power_limit: float | None = None
    processes: tuple[GpuProcess, ...] | None = None
    compute_capability: str | None = None
    mig: bool | None = None
    state: Literal["ok", "partly", "lost"] = "ok"
    errors: dict[str, str] = {}
    """Field → NVML's code in words."""


class HostFacts(Record):
    """What this machine has. Sizes are bytes."""

    hostname: str
    gpus: tuple[GpuFacts, ...] = ()
    nvml: str | None = None
    """None where NVML answers; else the key of a sentence that says why it does not."""
    driver: str | None = None
    cpu_count: int
    cpu_percent: float | None = None
    memory_total: int
    memory_available: int
    disk_total: int
    disk_free: int
    """Of the file system that holds the cache."""
    shm_total: int | None = None
    shm_free: int | None = None
    compiler: str | None = None
    """Path of g++ (or $CXX) where there is one: CPU offload needs it."""
    packages: dict[str, str] = {}
    """Versions of the packages that the engine needs; an absent one is absent here."""
    held: dict[str, str] = {}
    """Device ("cpu" or a GPU's UUID) → id of the run that holds its lock."""
