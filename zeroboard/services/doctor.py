"""What this machine has, judged: can it train, and what would it need for more."""

from __future__ import annotations

import importlib.util
import re
import socket
from pathlib import Path

from zeroboard.catalogue import MODELS
from zeroboard.contract.host import HostFacts
from zeroboard.contract.problems import Scalar
from zeroboard.contract.reports import DoctorCheck, DoctorReport, overall
from zeroboard.monitor.host import ninja
from zeroboard.paths import Paths
from zeroboard.planning.visible import hidden, visible_gpus
from zeroboard.services import host as hosts

NEEDED = ("torch", "transformers", "peft", "accelerate", "safetensors")
"""Without these nothing trains."""
GIB = 1 << 30
MEMORY = 4 * GIB
DISK = 5 * GIB
DISK_FAIL = 256 << 20
SHM = GIB
PORT = 7860


def doctor(paths: Paths, *, port: int = PORT) -> DoctorReport:
    """Every check, by itself. The verdict is `fail` only where training is impossible here, the CPU included."""
    host = hosts.measure(paths)
    checks = (
        _nvml(host),
        _driver(host),
        _gpus(host),
        _torch_cuda(host),
        _deepspeed(host),
        _ops(host),
        _compiler(host),
        _memory(host),
        _disk(host, paths),
        _shm(host),
        _packages(host),
        _model(host, paths),
        _port(port),
    )
    return DoctorReport(verdict=overall(checks), checks=checks, host=host)


def _nvml(host: HostFacts) -> DoctorCheck:
    if host.nvml is None:
        return DoctorCheck(name="nvml", verdict="pass", says="doctor.nvml.ok")
    missing = host.nvml == "nvml.no-library"
    return DoctorCheck(name="nvml", verdict="skip" if missing else "warn", says=host.nvml)


def _driver(host: HostFacts) -> DoctorCheck:
    if host.driver is None:
        return DoctorCheck(name="driver", verdict="skip", says="doctor.driver.none")
    return DoctorCheck(name="driver", verdict="pass", says="doctor.driver.ok", params={"version": host.driver})


def _gpus(host: HostFacts) -> DoctorCheck:
    if not host.gpus:
        return DoctorCheck(name="gpus", verdict="skip", says="doctor.gpus.none")
    sick = [str(gpu.index) for gpu in host.gpus if gpu.state == "lost"]
    if sick:
        return DoctorCheck(name="gpus", verdict="warn", says="doctor.gpus.lost", params={"gpus": ", ".join(sick)})
    away = hidden(host)
    if away:
        params: dict[str, Scalar] = {"seen": len(visible_gpus(host)), "found": len(visible_gpus(host)) + away}
        return DoctorCheck(name="gpus", verdict="warn", says="doctor.gpus.hidden", params=params)
    names = ", ".join(gpu.name or "?" for gpu in host.gpus)
    return DoctorCheck(
        name="gpus", verdict="pass", says="doctor.gpus.ok", params={"count": len(host.gpus), "names": names}
    )


def torch_cuda() -> str | None:
    """The CUDA version that the installed torch was built for, without importing it; None: a CPU build, or no torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    found = re.search(r"^cuda[^=\n]*=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return found.group(1) if found is not None else None


def _torch_cuda(host: HostFacts) -> DoctorCheck:
    cuda = torch_cuda()
    if host.gpus and cuda is None:
        return DoctorCheck(name="torch-cuda", verdict="warn", says="doctor.torch-cuda.cpu-build")
    if not host.gpus:
        return DoctorCheck(name="torch-cuda", verdict="skip", says="doctor.torch-cuda.no-gpu")
    return DoctorCheck(name="torch-cuda", verdict="pass", says="doctor.torch-cuda.ok", params={"cuda": cuda})


def _deepspeed(host: HostFacts) -> DoctorCheck:
    version = host.packages.get("deepspeed")
    if version is None:
        return DoctorCheck(name="deepspeed", verdict="warn", says="doctor.deepspeed.missing")
    return DoctorCheck(name="deepspeed", verdict="pass", says="doctor.deepspeed.ok", params={"version": version})


def _ops(host: HostFacts) -> DoctorCheck:
    if host.compiler is None:
        return DoctorCheck(name="ops", verdict="warn", says="doctor.ops.missing")
    return DoctorCheck(name="ops", verdict="pass", says="doctor.ops.ok")


def _compiler(host: HostFacts) -> DoctorCheck:
    if host.compiler is not None:
        return DoctorCheck(name="compiler", verdict="pass", says="doctor.compiler.ok", params={"path": host.compiler})
    says = "doctor.compiler.missing" if ninja() is not None else "doctor.compiler.no-ninja"
    return DoctorCheck(name="compiler", verdict="warn", says=says)


def _memory(host: HostFacts) -> DoctorCheck:
    low = host.memory_free < MEMORY
    return DoctorCheck(
        name="memory",
        verdict="warn" if low else "pass",
        says="doctor.memory.low" if low else "doctor.memory.ok",
        params={"available": _gib(host.memory_free), "total": _gib(host.memory_limit or host.memory_total)},
    )


def _disk(host: HostFacts, paths: Paths) -> DoctorCheck:
    verdict = "fail" if host.disk_free < DISK_FAIL else "warn" if host.disk_free < DISK else "pass"
    return DoctorCheck(
        name="disk",
        verdict=verdict,
        says="doctor.disk.ok" if verdict == "pass" else "doctor.disk.low",
        params={"free": _gib(host.disk_free), "path": str(paths.root)},
    )


def _shm(host: HostFacts) -> DoctorCheck:
    if host.shm_total is None:
        return DoctorCheck(name="shm", verdict="warn", says="doctor.shm.none")
    low = host.shm_total < SHM and len(host.gpus) > 1
    return DoctorCheck(
        name="shm",
        verdict="warn" if low else "pass",
        says="doctor.shm.low" if low else "doctor.shm.ok",
        params={"total": _gib(host.shm_total)},
    )


def _packages(host: HostFacts) -> DoctorCheck:
    missing = [name for name in NEEDED if name not in host.packages]
    if missing:
        names = ", ".join(missing)
        return DoctorCheck(name="packages", verdict="fail", says="doctor.packages.missing", params={"names": names})
    found = ", ".join(f"{name} {host.packages[name]}" for name in NEEDED)
    return DoctorCheck(name="packages", verdict="pass", says="doctor.packages.ok", params={"names": found})


def _model(host: HostFacts, paths: Paths) -> DoctorCheck:
    model = MODELS[0]
    params = {"name": model.name, "package": model.package}
    if (model.folder(paths) / "config.json").is_file():
        return DoctorCheck(name="model", verdict="pass", says="doctor.model.ready", params=params)
    if importlib.util.find_spec(model.module) is not None:
        return DoctorCheck(name="model", verdict="pass", says="doctor.model.to-convert", params=params)
    return DoctorCheck(name="model", verdict="warn", says="doctor.model.missing", params=params)


def _port(port: int) -> DoctorCheck:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return DoctorCheck(name="port", verdict="warn", says="doctor.port.in-use", params={"port": port})
    return DoctorCheck(name="port", verdict="pass", says="doctor.port.ok", params={"port": port})


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}"
