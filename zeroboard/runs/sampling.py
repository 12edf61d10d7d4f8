"""What the machine did while a run went on: a reading every few seconds, into the run's folder.

The supervisor measures nothing itself: it reads what the cache's poller tells, and keeps that wanted. Where there is no
poller, or a full disk, a reading is missing, and the run goes on.
A file of readings stays small however long a run is: at `LIMIT` every second one of the older readings goes, so the
last while stays as dense as it was and the past gets coarser. The file is then replaced by a shorter one.
Where a container numbers its processes by itself, the driver's numbers name nobody, and whose they are is not known.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from zeroboard.contract import poller
from zeroboard.contract.host import GpuFacts, GpuProcess, HostFacts
from zeroboard.contract.readings import GpuReading, ProcessReading, Reading
from zeroboard.files import append_line, write_atomic
from zeroboard.runs.context import Context
from zeroboard.runs.processes import carries

log = logging.getLogger(__name__)

LIMIT = 4 << 20
"""Bytes from which the file is thinned: a day with one GPU, three hours with eight."""
DENSE = 360
"""Newest readings that are never thinned out: half an hour of them."""
PROC = Path("/proc")
FIRST_NAMESPACE = 0xEFFFFFFC
"""Inode of the PID namespace that the machine starts with, in which the driver counts; a container has another."""
AGAIN = 1.0
"""Seconds after which it is tried again where the poller told nothing."""

FIELDS = (
    "index", "name", "memory_used", "memory_total", "utilization", "memory_utilization", "temperature", "power",
    "power_limit", "clock_sm", "throttle",
)  # fmt: skip
"""Of `GpuFacts`, kept in a `GpuReading`."""


class Sampler:
    """Takes the readings of one run. A failure to write is said once and never raised."""

    def __init__(self, context: Context, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._clock = clock
        self._due = 0.0
        self._failing = False
        resolved = context.plan.resolved
        self._devices = resolved.gpus if resolved is not None else ()

    def look(self) -> None:
        """Take a reading if it is time to; costs nothing if not."""
        now = self._clock()
        if now < self._due:
            return
        context = self._context
        poller.ensure(context.paths, context.popen)
        facts = poller.fresh(context.paths)
        if facts is None:
            self._due = now + min(AGAIN, context.timing.sample)
            return
        self._due = now + context.timing.sample
        self._keep(reading(facts, self._devices, lambda pid: whose(pid, context.run.id)))

    def _keep(self, found: Reading) -> None:
        path = self._context.run.readings
        try:
            append_line(path, found.model_dump_json(exclude_defaults=True))
            if path.stat().st_size > LIMIT:
                thin(path)
        except OSError as error:  # a full disk: what matters is written by `Life`, which also gives up where it must
            if not self._failing:
                log.warning("a reading could not be written: %s", error)
            self._failing = True
        else:
            self._failing = False


def thin(path: Path, *, dense: int = DENSE) -> None:
    """Take every second line out of a file of readings, but of the newest `dense` ones none. Raises `OSError`.

    The older half is thinned whatever `dense` says, so that the file becomes shorter in any case.
    """
    lines = path.read_bytes().splitlines(keepends=True)
    border = len(lines) - min(dense, len(lines) // 2)
    write_atomic(path, b"".join((*lines[:border:2], *lines[border:])))


def whose(pid: int, run_id: str, *, proc: Path = PROC) -> bool | None:
    """Whether a process of a GPU is the run's; None where its number names nobody and may be of another counting."""
    if (proc / str(pid)).exists():
        return carries(pid, run_id)
    return False if (proc / "self" / "ns" / "pid").stat().st_ino == FIRST_NAMESPACE else None


def reading(facts: HostFacts, devices: tuple[str, ...], ours: Callable[[int], bool | None]) -> Reading:
    """One sample of the devices (UUIDs of GPUs or of slices; none on the CPU) and of the host.

    `ours` tells whether a process belongs to the run. A GPU that is not among the facts is left out.
    """
    gpus = [_gpu(uuid, gpu, ours) for uuid in devices for gpu in facts.gpus if uuid == gpu.uuid or _in(uuid, gpu)]
    grouped = facts.memory_limit is not None and facts.memory_in_group is not None
    return Reading(
        time=facts.time if facts.time is not None else time.time(),
        gpus=tuple(gpus),
        nvml=facts.nvml if devices else None,
        cpu_percent=facts.cpu_percent,
        memory_used=facts.memory_in_group if grouped else facts.memory_total - facts.memory_available,
        memory_total=facts.memory_limit if grouped else facts.memory_total,
        disk_free=facts.disk_free,
        shm_free=facts.shm_free,
    )


def _in(uuid: str, gpu: GpuFacts) -> bool:
    return any(part.uuid == uuid for part in gpu.slices or ())


def _gpu(uuid: str, gpu: GpuFacts, ours: Callable[[int], bool | None]) -> GpuReading:
    """What one device did; of a slice the memory is its own, and the rest that of its GPU."""
    kept = {field: getattr(gpu, field) for field in FIELDS}
    for part in gpu.slices or ():
        if part.uuid == uuid:
            kept |= {"name": part.name, "memory_used": part.memory_used, "memory_total": part.memory_total}
    processes = None if gpu.processes is None else tuple(_process(process, ours) for process in gpu.processes)
    return GpuReading(uuid=uuid, processes=processes, **kept)


def _process(process: GpuProcess, ours: Callable[[int], bool | None]) -> ProcessReading:
    return ProcessReading(pid=process.pid, memory=process.memory, ours=ours(process.pid))
