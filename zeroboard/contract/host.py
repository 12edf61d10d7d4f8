"""Facts about the machine, as a value: measured by `monitor`, handed to `planning`, shown by the faces."""

from __future__ import annotations

from typing import Literal

from zeroboard.contract.base import Record

THROTTLES = (
    "power-cap",
    "power-brake",
    "thermal-software",
    "thermal-hardware",
    "hardware-slowdown",
    "sync-boost",
    "clocks-set",
)
"""Why a GPU's clocks are held down, of NVML's bit mask; being idle is none. Sentences: `gpu.throttle.*`."""


class GpuProcess(Record):
    """A process that holds memory of a GPU."""

    pid: int
    user: str | None = None
    command: str | None = None
    memory: int | None = None
    """Bytes."""


class MigSlice(Record):
    """A slice of a GPU in MIG mode."""

    uuid: str | None = None
    name: str | None = None
    memory_total: int | None = None
    """Bytes."""
    memory_used: int | None = None


class GpuFacts(Record):
    """One GPU as NVML tells it. A reading that the driver does not give is None; `errors` says why."""

    index: int
    """NVML's order, which is the PCI bus order."""
    uuid: str | None = None
    name: str | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    memory_shared: bool | None = None
    """The GPU has no memory of its own but uses the host's (unified memory): sizes are then the host's, or None."""
    utilization: float | None = None
    """Per cent of the time in which a kernel ran."""
    memory_utilization: float | None = None
    """Per cent of the time in which memory was read or written."""
    temperature: float | None = None
    """°C."""
    power: float | None = None
    """Watts."""
    power_limit: float | None = None
    """Watts."""
    clock_sm: int | None = None
    """MHz, like the other clocks."""
    clock_sm_max: int | None = None
    clock_memory: int | None = None
    clock_memory_max: int | None = None
    throttle: tuple[str, ...] | None = None
    """Why the clocks are held down: words of `THROTTLES`; empty: they are not."""
    processes: tuple[GpuProcess, ...] | None = None
    compute_capability: str | None = None
    mig: bool | None = None
    slices: tuple[MigSlice, ...] | None = None
    """In MIG mode; None: in none, or not told."""
    state: Literal["ok", "partly", "lost"] = "ok"
    errors: dict[str, str] = {}
    """Field → NVML's code in words."""


class HostFacts(Record):
    """What this machine has. Sizes are bytes."""

    time: float | None = None
    """When it was measured, in seconds since the epoch."""

    hostname: str
    gpus: tuple[GpuFacts, ...] = ()
    nvml: str | None = None
    """None where NVML answers; else the key of a sentence that says why it does not."""
    driver: str | None = None
    cpu_count: int
    cpu_percent: float | None = None
    memory_total: int
    memory_available: int
    memory_limit: int | None = None
    """What this control group (a container) may use, where that is less than the machine has."""
    memory_in_group: int | None = None
    """What it uses now; its page cache, which the kernel gives back, not counted."""
    cpu_limit: float | None = None
    """Processors' time that this control group may use; None: all of it."""
    disk_total: int
    disk_free: int
    """Of the file system that holds the cache."""
    shm_total: int | None = None
    shm_free: int | None = None
    compiler: str | None = None
    """Path of g++ (or $CXX) where there is one: CPU offload needs it."""
    lockable: int | None = None
    """Bytes that a process may lock in memory, as buffers of NVMe offload are; None: as many as there are."""
    packages: dict[str, str] = {}
    """Versions of the packages that the engine needs; an absent one is absent here."""
    visible: tuple[str, ...] | None = None
    """UUIDs of the GPUs and slices that this process's own CUDA_VISIBLE_DEVICES leaves, in its order; None: not set."""
    visible_guessed: bool = False
    """It gives indices, the cards are of several kinds, and nothing says in which order CUDA counts them."""
    held: dict[str, str] = {}
    """Device ("cpu" or a GPU's UUID) → id of the run that holds its lock."""

    @property
    def memory_free(self) -> int:
        """Bytes that may still be used: what the machine has left, or the control group where that is less."""
        if self.memory_limit is None:
            return self.memory_available
        return min(self.memory_available, max(self.memory_limit - (self.memory_in_group or 0), 0))
