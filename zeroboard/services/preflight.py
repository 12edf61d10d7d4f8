"""Pre-flight: one list of checks for a plan, before a GPU hour is spent. Failures stop Start, warnings are told.

The machine's checks are the doctor's; what stands in the plan's own way (its problems, by their codes) comes in the
place of the machine's line of that name, and what the plan does not need is left aside.
"""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

from zeroboard.contract.host import HostFacts
from zeroboard.contract.plan import Plan
from zeroboard.contract.problems import Problem, errors
from zeroboard.contract.reports import CheckVerdict, DoctorCheck, Verdict, overall
from zeroboard.contract.spec import RunSpec
from zeroboard.monitor.folders import folder_facts
from zeroboard.paths import Paths
from zeroboard.planning.command import Place, place
from zeroboard.planning.machine import size
from zeroboard.planning.visible import visible_gpus
from zeroboard.services import host as hosts
from zeroboard.services import toolchain as tools
from zeroboard.services.doctor import Machine, machine_checks, of_problem
from zeroboard.services.folders import output_folder
from zeroboard.zero.swap import judge_swap, swapped_most

PLACES = {
    "dependency-missing": "packages",
    "dependency-version": "packages",
    "offload-toolchain": "ops",
    "gpu-unavailable": "gpus",
    "gpu-busy": "gpus",
    "p2p-unsupported": "p2p",
    "precision-unsupported": "capability",
    "precision-conflict": "capability",
    "host-memory": "memory",
    "does-not-fit": "memory",
    "disk-space": "disk",
    "output-not-writable": "output",
    "output-not-shared": "output",
    "output-exists": "output",
    "nvme-path": "output",
    "shm-too-small": "shm",
    "port-in-use": "port",
    "model-missing": "model",
    "model-unsupported": "model",
    "remote-code": "model",
    "stage3-quantized": "model",
    "template-missing": "template",
    "template-mismatch": "template",
    "data-missing": "data",
    "data-refused": "data",
}
"""Code of a problem → the check in whose place it stands; any other is one of the settings."""
FAILED = {
    "disk": "disk-space",
    "output": "output-not-writable",
    "packages": "dependency-missing",
    "torch-cuda": "dependency-version",
    "port": "port-in-use",
}
"""Name of a check of the machine → the code of the problem that it is where it fails."""
SETTINGS = "settings"
TORCH = ("torch-cpu", "driver", "architecture")
"""Last parts of the sentences of `dependency-version` that stand in the place of `torch-cuda`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """What was checked."""

    checks: tuple[DoctorCheck, ...]

    @property
    def verdict(self) -> Verdict:
        return overall(self.checks)


def preflight(paths: Paths, plan: Plan, spec: RunSpec, *, host: HostFacts | None = None) -> Preflight:
    """Every check of a plan, by itself; nothing is started but the short questions that `toolchain` asks."""
    facts = host or hosts.facts(paths)
    wanted = needs_toolchain(spec, facts)
    found, why = tools.ask_or_say(paths, facts) if wanted else (tools.known(paths, facts), None)
    machine = Machine(
        host=facts, output=output_folder(paths), toolchain=found, why=why, conflicts=tools.conflicts(paths)
    )
    checks = [_needed(check, plan, spec) for check in machine_checks(machine, paths) if check.name != "model"]
    own = [*checks, _port(spec, facts), *_inputs(plan)]
    problems = (*plan.problems, *moved(plan, machine.host))
    return Preflight(checks=tuple(_merged(own, problems)))


def needs_toolchain(spec: RunSpec, host: HostFacts) -> bool:
    """Whether what torch and DeepSpeed can do here decides anything for this spec."""
    return spec.zero.offload != "none" or bool(visible_gpus(host))


def moved(plan: Plan, host: HostFacts) -> tuple[Problem, ...]:
    """What has changed here since the plan was made and would end the run; what it says itself is not repeated."""
    found, told = [], {problem.code for problem in errors(plan.problems)}
    if plan.disk_bytes is not None and plan.disk_bytes > host.disk_free:
        params = {"need": size(plan.disk_bytes), "free": size(host.disk_free)}
        found.append(Problem(code="disk-space", field="train.keep_checkpoints", params=params))
    wanted = plan.resolved.gpus if plan.resolved is not None else ()
    there = {gpu.uuid for gpu in visible_gpus(host)}
    for uuid in wanted:
        if uuid not in there:
            params = {"uuid": uuid, "found": str(len(there))}
            says = "problem.gpu-unavailable.unknown"
            found.append(Problem(code="gpu-unavailable", field="devices.gpus", says=says, params=params))
    return tuple(problem for problem in found if problem.code not in told)


def before_start(paths: Paths, plan: Plan, spec: RunSpec | None) -> tuple[Problem, ...]:
    """What stops a start now, though the plan was good when it was made: errors only, the quick ones."""
    host = hosts.facts(paths)
    asked = spec is not None and needs_toolchain(spec, host)
    found_tools, why = tools.ask_or_say(paths, host) if asked else (tools.known(paths, host), None)
    machine = Machine(host=host, output=output_folder(paths), toolchain=found_tools, why=why)
    checks = [*machine_checks(machine, paths), *([_port(spec, host)] if spec is not None else [])]
    found = [*moved(plan, host), *(swap_problems(plan, spec) if spec is not None else ())]
    found += port_problems(spec, host) if spec is not None else ()
    told = {problem.code for problem in found}
    for check in checks:
        code = FAILED.get(check.name, check.name)
        if check.verdict == "fail" and code not in told:
            found.append(Problem(code=code, says=check.says, params=check.params))
    return errors(found)


def swap_problems(plan: Plan, spec: RunSpec) -> tuple[Problem, ...]:
    """The folder that the run swaps to as it is now: there, writable, with room for all that may lie there."""
    if plan.promise is None or not plan.promise.swaps or plan.resolved is None:
        return ()
    need = swapped_most(plan.promise, spec.zero, plan.batch.gpus // plan.resolved.nodes)
    return judge_swap(spec.zero.nvme_path, folder_facts(spec.zero.nvme_path), "zero.nvme_path", need=need)


def port_problems(spec: RunSpec, host: HostFacts) -> tuple[Problem, ...]:
    """The port where several machines are to meet, where that is on this machine and somebody has it."""
    meet = place(spec, host) if spec.devices.nodes > 1 else None
    if meet is None or not (meet.local or meet.host == host.hostname) or free(meet):
        return ()
    params = {"host": meet.host, "port": meet.port}
    return (Problem(code="port-in-use", field="devices.rendezvous", params=params),)


def free(meet: Place) -> bool:
    """Whether the place can be listened at; a name that leads to none of our addresses is not for us to judge."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((meet.host, meet.port))
        except OSError as error:
            return error.errno not in (errno.EADDRINUSE, errno.EACCES)
    return True


def _port(spec: RunSpec, host: HostFacts) -> DoctorCheck:
    """One machine: the launcher takes a free port of its own, so there only has to be one on loopback."""
    meet = place(spec, host) if spec.devices.nodes > 1 else None
    if meet is not None:
        return DoctorCheck(name="port", verdict="pass", says="preflight.port.meeting", params={"place": str(meet)})
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", 0))
        except OSError as error:
            why = {"why": error.strerror or str(error)}
            return DoctorCheck(name="port", verdict="fail", says="preflight.port.none", params=why)
    return DoctorCheck(name="port", verdict="pass", says="preflight.port.own")


def _inputs(plan: Plan) -> list[DoctorCheck]:
    """Model, template and data, as the plan found them; what is wrong with them stands in the plan's problems."""
    model, data = plan.model, plan.resolved
    found = [
        DoctorCheck(
            name="model",
            verdict="pass" if model is not None else "skip",
            says="preflight.model.ok" if model is not None else "preflight.model.none",
            params={"model": model.name, "architecture": model.architecture or "?"} if model is not None else {},
        ),
        DoctorCheck(
            name="template",
            verdict="pass" if model is not None and model.has_template else "skip",
            says="preflight.template.ok" if model is not None and model.has_template else "preflight.template.none",
        ),
    ]
    if plan.tokens is not None:
        params = {"rows": plan.tokens.rows, "learned": plan.tokens.learned}
        found.append(DoctorCheck(name="data", verdict="pass", says="preflight.data.tokens", params=params))
    elif data is not None:
        read = {"path": data.data_path, "format": data.data_format}
        found.append(DoctorCheck(name="data", verdict="pass", says="preflight.data.ok", params=read))
    else:
        found.append(DoctorCheck(name="data", verdict="skip", says="preflight.data.none"))
    return found


def _needed(check: DoctorCheck, plan: Plan, spec: RunSpec) -> DoctorCheck:
    """A warning about what this plan does not use is none; what would hinder any plan stays."""
    on_cpu = plan.resolved is not None and plan.resolved.device == "cpu"
    unused = {
        "ops": spec.zero.offload == "none",
        "compiler": spec.zero.offload == "none",
        "deepspeed": spec.zero.stage == "none",
        "nvml": on_cpu,
        "gpus": on_cpu,
        "shm": on_cpu,
    }
    if check.verdict == "warn" and unused.get(check.name, False):
        return check.model_copy(update={"verdict": "skip"})
    return check


def _merged(checks: list[DoctorCheck], problems: tuple[Problem, ...]) -> list[DoctorCheck]:
    """Each problem in the place of the machine's line of its name, the settings' own at the end."""
    by_name: dict[str, list[DoctorCheck]] = {}
    for problem in problems:
        name = _name(problem)
        by_name.setdefault(name, []).append(of_problem(name, problem))
    found: list[DoctorCheck] = []
    for check in checks:
        found += by_name.pop(check.name, [check])
    for name in sorted(by_name, key=lambda name: name != SETTINGS):
        found += by_name[name]
    if SETTINGS not in by_name:
        verdict: CheckVerdict = "pass"
        found.append(DoctorCheck(name=SETTINGS, verdict=verdict, says="preflight.settings.ok"))
    return found


def _name(problem: Problem) -> str:
    if problem.code == "dependency-version" and problem.message_key.rpartition(".")[2] in TORCH:
        return "torch-cuda"
    return PLACES.get(problem.code, SETTINGS)
