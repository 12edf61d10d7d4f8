"""Rules about the machine: what torch and DeepSpeed can do on it, its GPUs, its memory, the folder for the output.

Like those of `rules`, small pure functions. They look at less (`Machine`), so that doctor can ask them before there is
a plan. A fact that nobody has measured is None, and then its rule says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zeroboard.contract.folders import FolderFacts
from zeroboard.contract.host import GpuFacts, HostFacts
from zeroboard.contract.plan import Promise
from zeroboard.contract.problems import Problem, Scalar, problem
from zeroboard.contract.spec import RunSpec
from zeroboard.contract.toolchain import Toolchain
from zeroboard.planning.choices import Devices
from zeroboard.planning.command import place
from zeroboard.planning.dependencies import dependencies
from zeroboard.planning.peers import P2P_DRIVER, P2P_NEVER, P2P_SWITCHES, numbers, without_p2p

DRIVERS = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580, 65, 6)}
"""Major version of CUDA → the oldest Linux driver that runs it (NVIDIA's table of minor version compatibility)."""
LOCAL_FILESYSTEMS = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "f2fs", "ramfs"})
"""Types of file systems that one machine alone sees."""
PROCESS_LEAST = 1 << 28
"""Bytes of a GPU that another process may hold without a word (a desktop)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """All that a rule here may look at."""

    spec: RunSpec
    host: HostFacts
    devices: Devices
    promise: Promise | None
    """Of each rank; None: the model's shapes are not known."""
    toolchain: Toolchain | None
    output: FolderFacts | None
    """The nearest folder that is there above the run's own."""


def check(machine: Machine) -> tuple[Problem, ...]:
    """Every problem that a rule finds, errors first."""
    found = [problem for rule in RULES for problem in rule(machine)]
    return tuple(sorted(found, key=lambda problem: problem.severity != "error"))


def packages(machine: Machine) -> list[Problem]:
    """Missing, too old or too new, or failing together."""
    return dependencies(machine.host.packages, machine.spec)


def operators(machine: Machine) -> list[Problem]:
    """DeepSpeed's own builders say whether offload's optimizer can be compiled here, and a small program tries."""
    tools = machine.toolchain
    if machine.spec.zero.offload == "none" or tools is None or machine.host.compiler is None:
        return []
    field, mend = "zero.offload", {"zero.offload": "none"}
    if not tools.compiles:
        return [problem("offload-toolchain", field, "headers", {"why": tools.said or ""}, mend=mend)]
    op = tools.ops.get("cpu_adam")
    if op is None or op.compatible:
        return []
    return [problem("offload-toolchain", field, "refused", {"op": "cpu_adam", "why": op.why or "?"}, mend=mend)]


def torch_matches(machine: Machine) -> list[Problem]:
    """A build of torch that these GPUs, or their driver, cannot run."""
    tools, gpus = machine.toolchain, machine.devices.gpus
    return cuda_problems(tools, gpus, machine.host.driver) if tools is not None and gpus else []


def cuda_problems(tools: Toolchain, gpus: tuple[GpuFacts, ...], driver: str | None) -> list[Problem]:
    """What keeps this torch from these GPUs: no CUDA in it, an old driver, no kernels for their generation."""
    code = "dependency-version"
    if tools.cuda is None:
        return [problem(code, None, "torch-cpu", {"version": tools.torch})]
    found = []
    least = DRIVERS.get(int(tools.cuda.split(".")[0]))
    have = numbers(driver)
    if least is not None and have is not None and have < least:
        params: dict[str, Scalar] = {"driver": driver, "cuda": tools.cuda, "least": ".".join(map(str, least))}
        found.append(problem(code, None, "driver", params))
    for gpu in gpus:
        if gpu.compute_capability is not None and not runs_on(tools.architectures, gpu.compute_capability):
            params = {
                "gpu": gpu.name or gpu.uuid or str(gpu.index),
                "capability": gpu.compute_capability,
                "built": ", ".join(tools.architectures),
                "version": tools.torch,
            }
            found.append(problem(code, "devices.gpus", "architecture", params))
    return found


def runs_on(architectures: tuple[str, ...], capability: str) -> bool:
    """Whether kernels that were built for these run on a GPU: binary code within its major version, or from PTX.

    Where a build tells nothing, it is let pass.
    """
    have = numbers(capability)
    if not architectures or have is None or len(have) != 2:
        return True
    for name in architectures:
        kind, _, digits = name.partition("_")
        plain = digits.rstrip("af")
        if not plain.isdecimal() or len(plain) < 2:
            continue
        built = (int(plain[:-1]), int(plain[-1]))
        if (kind == "compute" and built <= have) or (built[0] == have[0] and built[1] <= have[1]):
            return True
    return False


def peer_to_peer(machine: Machine) -> list[Problem]:
    """Told, because the run goes on: the plan sets the switches that NCCL needs."""
    gpus = machine.devices.gpus
    if not without_p2p(gpus, machine.host.driver):
        return []
    params: dict[str, Scalar] = {
        "name": next(gpu.name for gpu in gpus if P2P_NEVER in (gpu.name or "")),
        "driver": machine.host.driver or "?",
        "least": ".".join(map(str, P2P_DRIVER)),
        "switches": " ".join(f"{name}={value}" for name, value in P2P_SWITCHES.items()),
    }
    return [problem("p2p-unsupported", "devices.gpus", params=params, severity="warning")]


def gpus_shared(machine: Machine) -> list[Problem]:
    """Processes of others that hold memory of a GPU which the run would take."""
    found = []
    for gpu in machine.devices.gpus:
        if (gpu.uuid or "") in machine.host.held:
            continue  # that run is named already
        for process in gpu.processes or ():
            if process.memory is not None and process.memory < PROCESS_LEAST:
                continue
            params: dict[str, Scalar] = {
                "device": gpu.name or gpu.uuid or str(gpu.index),
                "index": gpu.index,
                "pid": process.pid,
                "user": process.user or "?",
                "command": (process.command or "?")[:80],
                "memory": size(process.memory) if process.memory is not None else "?",
            }
            found.append(problem("gpu-busy", "devices.gpus", "process", params, severity="warning"))
    return found


def host_memory(machine: Machine) -> list[Problem]:
    """The host's memory for what its ranks keep there for good; working memory comes on top, so this is the least."""
    promise, host = machine.promise, machine.host
    if promise is None:
        return []
    kept = promise.offloaded_bytes
    if machine.devices.device == "cpu":
        kept = promise.parameter_bytes + promise.gradient_bytes + promise.optimizer_bytes
    need = kept * machine.devices.local
    most = host.memory_limit or host.memory_total
    params = {"need": size(need), "free": size(host.memory_free), "most": size(most)}
    if need > most:
        return [problem("host-memory", "zero.offload", params=params)]
    if need > host.memory_free:
        return [problem("host-memory", "zero.offload", "tight", params, severity="warning")]
    return []


def output_folder(machine: Machine) -> list[Problem]:
    """The run's folder can be made, and other machines can see it where several train."""
    output = machine.output
    if output is None:
        return []
    if not output.exists or not output.writable:
        return [problem("output-not-writable", None, params={"path": output.path})]
    return []


def several_machines(machine: Machine) -> list[Problem]:
    """Where they meet is a place, and all of them see the run's folder."""
    spec, output = machine.spec.devices, machine.output
    if spec.nodes == 1:
        ignored = {"field": "devices.rendezvous"}
        return (
            [problem("ignored-choice", "devices.rendezvous", "nodes", ignored, severity="warning")]
            if (spec.rendezvous)
            else []
        )
    meet = place(machine.spec, machine.host)
    if meet is None:
        given: dict[str, Scalar] = {"given": spec.rendezvous[:80] or machine.host.hostname}
        return [problem("value-range", "devices.rendezvous", "rendezvous", given)]
    if meet.local or output is None or output.filesystem not in LOCAL_FILESYSTEMS:
        return []
    params: dict[str, Scalar] = {"path": output.path, "filesystem": output.filesystem, "nodes": spec.nodes}
    return [problem("output-not-shared", "devices.nodes", params=params, severity="warning")]


def size(count: int) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 1 << 28 else f"{count / 2**20:.1f} MiB"


RULES: tuple[Callable[[Machine], list[Problem]], ...] = (
    packages,
    torch_matches,
    operators,
    peer_to_peer,
    gpus_shared,
    host_memory,
    output_folder,
    several_machines,
)
"""All rules, in the order in which their problems are told."""
