"""What this machine has, judged: can it train, and what would it need for more.

The same checks stand in the preview of a plan (`services.preflight`), where those that the plan does not need are left
aside and what stands in the plan's own way comes in their place.
"""

from __future__ import annotations

import importlib.util
import os
import socket
from dataclasses import dataclass

from zeroboard.catalogue import MODELS
from zeroboard.contract.folders import FolderFacts
from zeroboard.contract.host import HostFacts
from zeroboard.contract.problems import Problem, Scalar, errors
from zeroboard.contract.reports import CheckVerdict, DoctorCheck, DoctorReport, overall
from zeroboard.contract.toolchain import Toolchain
from zeroboard.monitor.host import ninja
from zeroboard.paths import Paths
from zeroboard.planning.choices import BF16_CAPABILITY, usable_gpus
from zeroboard.planning.dependencies import DEEPSPEED, NEEDED, dependencies, within
from zeroboard.planning.machine import cuda_problems
from zeroboard.planning.peers import P2P_DRIVER, P2P_NEVER, numbers, without_p2p
from zeroboard.planning.planner import SCRUBBED
from zeroboard.planning.visible import hidden, visible_gpus
from zeroboard.runs.leftovers import left_over
from zeroboard.services import host as hosts
from zeroboard.services import toolchain as tools
from zeroboard.services.folders import output_folder

GIB = 1 << 30
MEMORY = 4 * GIB
DISK = 5 * GIB
DISK_FAIL = 256 << 20
SHM = GIB
PORT = 7860
NAMED = 5
"""Folders that one check names."""
SLOW = ("CUDA_LAUNCH_BLOCKING", "TORCH_DISTRIBUTED_DEBUG", "NCCL_DEBUG", "TORCH_SHOW_CPP_STACKTRACES")
"""Variables that people set to look for a fault, and that make every step slower; they are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the checks look at."""

    host: HostFacts
    output: FolderFacts
    """The nearest folder that is there above those of the runs."""
    toolchain: Toolchain | None
    """None: there is no torch to ask, nobody has asked it yet, or it cannot be imported (`why`)."""
    why: str | None = None
    """Why torch cannot be imported."""
    conflicts: tuple[str, ...] | None = None
    """What `pip check` complains about; None: nobody has asked."""


def doctor(paths: Paths, *, port: int = PORT) -> DoctorReport:
    """Every check, by itself. The verdict is `fail` only where training is impossible here, the CPU included."""
    host = hosts.measure(paths)
    found, why = tools.ask_or_say(paths, host)
    machine = Machine(
        host=host, output=output_folder(paths), toolchain=found, why=why, conflicts=tools.conflicts(paths)
    )
    checks = (*machine_checks(machine, paths), _port(port))
    return DoctorReport(verdict=overall(checks), checks=checks, host=host)


def machine_checks(machine: Machine, paths: Paths) -> tuple[DoctorCheck, ...]:
    """All but the port of the page, which is nothing to a run."""
    host = machine.host
    return (
        _nvml(host),
        _driver(host),
        _gpus(host),
        _torch_cuda(machine),
        _capability(host),
        _p2p(host),
        _deepspeed(host),
        _ops(machine),
        _compiler(host),
        _memory(host),
        _disk(host, paths),
        _output(machine.output),
        _swap(paths),
        _shm(host),
        _packages(host),
        _conflicts(machine.conflicts),
        _environment(),
        _model(host, paths),
    )


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


def _torch_cuda(machine: Machine) -> DoctorCheck:
    """torch itself says what it was built for; the GPUs and the driver say whether that runs here."""
    name, found, gpus = "torch-cuda", machine.toolchain, usable_gpus(machine.host)
    if machine.why is not None:
        return _check(name, "fail", "doctor.torch-cuda.broken", why=machine.why)
    if found is None:
        return _check(name, "skip", "doctor.torch-cuda.unknown")
    wrong = cuda_problems(found, gpus, machine.host.driver) if gpus else []
    if wrong:
        return of_problem(name, wrong[0], "warn")
    if not gpus:
        return _check(name, "skip", "doctor.torch-cuda.no-gpu", version=found.torch)
    return _check(name, "pass", "doctor.torch-cuda.ok", cuda=found.cuda, version=found.torch)


def _capability(host: HostFacts) -> DoctorCheck:
    told = [gpu for gpu in visible_gpus(host) if gpu.compute_capability is not None]
    if not told:
        return _check("capability", "skip", "doctor.capability.none")
    least = min(told, key=lambda gpu: numbers(gpu.compute_capability) or (0, 0))
    good = (numbers(least.compute_capability) or (0, 0)) >= BF16_CAPABILITY
    says = "doctor.capability.ok" if good else "doctor.capability.no-bf16"
    return _check("capability", "pass", says, capability=least.compute_capability, gpu=least.name)


def _p2p(host: HostFacts) -> DoctorCheck:
    gpus = visible_gpus(host)
    if len(gpus) < 2:
        return _check("p2p", "skip", "doctor.p2p.single")
    if without_p2p(gpus, host.driver):
        name = next(gpu.name for gpu in gpus if P2P_NEVER in (gpu.name or ""))
        return _check("p2p", "warn", "doctor.p2p.off", name=name, least=".".join(map(str, P2P_DRIVER)))
    return _check("p2p", "pass", "doctor.p2p.ok", count=len(gpus))


def _deepspeed(host: HostFacts) -> DoctorCheck:
    version = host.packages.get("deepspeed")
    if version is None:
        return _check("deepspeed", "warn", "doctor.deepspeed.missing")
    if not within(version, DEEPSPEED.versions):
        params = {"package": "deepspeed", "version": version, "wanted": DEEPSPEED.versions}
        return _check("deepspeed", "warn", f"problem.dependency-version.{DEEPSPEED.why}", **params)
    return _check("deepspeed", "pass", "doctor.deepspeed.ok", version=version)


def _ops(machine: Machine) -> DoctorCheck:
    """What DeepSpeed's own builders say; without them, whether there is a compiler at all."""
    found = machine.toolchain
    if found is None or not found.ops:
        if machine.host.compiler is None:
            return _check("ops", "warn", "doctor.ops.missing")
        return _check("ops", "skip", "doctor.ops.unknown")
    if machine.host.compiler is None:
        return _check("ops", "warn", "doctor.ops.missing")
    if not found.compiles:
        return _check("ops", "warn", "doctor.ops.headers", why=found.said)
    refused = {name: op.why or "?" for name, op in found.ops.items() if not op.compatible}
    if refused:
        names = "; ".join(f"{name} ({why})" for name, why in refused.items())
        return _check("ops", "warn", "doctor.ops.refused", names=names)
    return _check("ops", "pass", "doctor.ops.ok", names=", ".join(found.ops))


def _compiler(host: HostFacts) -> DoctorCheck:
    if host.compiler is not None:
        return _check("compiler", "pass", "doctor.compiler.ok", path=host.compiler)
    return _check("compiler", "warn", "doctor.compiler.missing" if ninja() is not None else "doctor.compiler.no-ninja")


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


def _output(output: FolderFacts) -> DoctorCheck:
    good = output.exists and output.writable
    says = "doctor.output.ok" if good else "problem.output-not-writable"
    return _check("output", "pass" if good else "fail", says, path=output.path, filesystem=output.filesystem or "?")


def _swap(paths: Paths) -> DoctorCheck:
    """What runs that are gone have left on disks that they swapped to; it is named, and never removed from here."""
    left = left_over(paths)
    if not left:
        return _check("swap", "pass", "doctor.swap.ok")
    names = "; ".join(f"{one.folder} ({_gib(one.bytes)} GiB)" for one in left[:NAMED])
    return _check(
        "swap", "warn", "doctor.swap.left", count=len(left), size=_gib(sum(o.bytes for o in left)), names=names
    )


def _packages(host: HostFacts) -> DoctorCheck:
    wrong = [problem for problem in dependencies(host.packages) if problem.params.get("package") != "deepspeed"]
    missing = [str(problem.params["package"]) for problem in wrong if problem.code == "dependency-missing"]
    if missing:
        return _check("packages", "fail", "doctor.packages.missing", names=", ".join(missing))
    if wrong:
        bad = errors(wrong)
        return of_problem("packages", (bad or tuple(wrong))[0])
    found = ", ".join(f"{name} {host.packages[name]}" for name in NEEDED if name in host.packages)
    return _check("packages", "pass", "doctor.packages.ok", names=found)


def _conflicts(lines: tuple[str, ...] | None) -> DoctorCheck:
    """`pip check`; what the bundled model's package does not need of others is no conflict."""
    if lines is None:
        return _check("conflicts", "skip", "doctor.conflicts.unknown")
    told = [line for line in lines if not line.startswith(f"{MODELS[0].package} ")]
    if told:
        return _check("conflicts", "warn", "doctor.conflicts.found", count=len(told), lines=" ".join(told)[:600])
    return _check("conflicts", "pass", "doctor.conflicts.ok")


def _environment() -> DoctorCheck:
    slow = [name for name in SLOW if os.environ.get(name)]
    if slow:
        return _check("environment", "warn", "doctor.environment.slow", names=", ".join(slow))
    taken = [name for name in SCRUBBED if name in os.environ and not name.startswith("ZEROBOARD")]
    if taken:
        return _check("environment", "pass", "doctor.environment.taken", names=", ".join(taken))
    return _check("environment", "pass", "doctor.environment.ok")


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


def of_problem(name: str, problem: Problem, verdict: CheckVerdict | None = None) -> DoctorCheck:
    """A check that says what a problem says."""
    how: CheckVerdict = verdict or {"error": "fail", "warning": "warn", "info": "pass"}[problem.severity]  # type: ignore[assignment]
    return DoctorCheck(
        name=name, verdict=how, says=problem.message_key, params={"field": problem.field, **problem.params}
    )


def _check(name: str, verdict: CheckVerdict, says: str, /, **params: Scalar) -> DoctorCheck:
    return DoctorCheck(name=name, verdict=verdict, says=says, params=params)
