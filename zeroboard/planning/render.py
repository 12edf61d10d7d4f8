"""The same plan for other launchers, as text for a shell: torchrun, the `deepspeed` launcher, several nodes, Slurm.

ZeroBoard itself never uses a shell; these texts are for people who start a run elsewhere, so every word is quoted for
one. Each is the plan's own command with another launcher in front: ranks, files and environment stay as they are.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Literal, get_args

from zeroboard.contract.host import HostFacts
from zeroboard.contract.plan import Plan, Resolved
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.contract.spec import RunSpec
from zeroboard.errors import Refused
from zeroboard.planning.command import Place, place, training

Launcher = Literal["torchrun", "deepspeed", "slurm", "nodes"]
LAUNCHERS: tuple[Launcher, ...] = get_args(Launcher)
DEEPSPEED_PORT = 29500
"""Where ranks meet under the `deepspeed` launcher; it takes a fixed port."""
DEVICES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""Set by the launcher, or by Slurm, that hands out GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do, with its text for a shell."""

    says: str
    """Key of the sentence that says where and when."""
    params: dict[str, Scalar]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A plan for another launcher."""

    launcher: Launcher
    steps: tuple[Step, ...]
    """In order; those of several machines run at the same time."""


def render(plan: Plan, spec: RunSpec, launcher: Launcher, host: HostFacts) -> Rendered:
    """The texts of a launcher for a plan without errors; raises `Refused` with the problems where it has some."""
    if plan.resolved is None or not plan.argv:
        raise Refused(plan.problems)
    meet = place(spec, host)
    if meet is None:
        given: dict[str, Scalar] = {"given": spec.devices.rendezvous[:80] or host.hostname}
        says = "problem.value-range.rendezvous"
        raise Refused([Problem(code="value-range", field="devices.rendezvous", says=says, params=given)])
    made = {"torchrun": _torchrun, "deepspeed": _deepspeed, "slurm": _slurm, "nodes": _nodes}[launcher]
    first = Step(says="render.prepare", params={}, text=_prefixed(plan, _prepare(plan)))
    return Rendered(launcher=launcher, steps=(first, *made(plan, plan.resolved, meet, host)))


def _torchrun(plan: Plan, resolved: Resolved, meet: Place, host: HostFacts) -> list[Step]:
    if resolved.nodes > 1:
        return _nodes(plan, resolved, meet, host)
    return [Step(says="render.start", params={}, text=_prefixed(plan, plan.argv))]


def _nodes(plan: Plan, resolved: Resolved, meet: Place, host: HostFacts) -> list[Step]:
    """One agent of torchrun on each machine; the command is the same everywhere."""
    text = _prefixed(plan, plan.argv)
    return [
        Step(says="render.node", params={"node": node + 1, "nodes": resolved.nodes, "place": str(meet)}, text=text)
        for node in range(resolved.nodes)
    ]


def _deepspeed(plan: Plan, resolved: Resolved, meet: Place, host: HostFacts) -> list[Step]:
    """The `deepspeed` launcher knows GPUs by index; on several machines it needs a list of them, and ssh."""
    local = resolved.batch.gpus // resolved.nodes
    indices = ",".join(_indices(resolved, host)) or ",".join(map(str, range(local)))
    runner = (plan.argv[0], "-m", "deepspeed.launcher.runner", "--no_local_rank")
    env = {name: value for name, value in plan.env.items() if name not in DEVICES}
    if resolved.nodes == 1:
        one = ("--include", f"localhost:{indices}") if resolved.device == "cuda" else ("--num_accelerators", str(local))
        argv = (*runner, *one, "--master_port", str(DEEPSPEED_PORT), *training(plan.folder or ""))
        return [Step(says="render.start", params={}, text=_prefixed(plan, argv, env))]
    names = [meet.host, *(f"node-{number}" for number in range(2, resolved.nodes + 1))]
    slots = max(map(int, indices.split(","))) + 1
    hosts = "".join(f"{name} slots={slots}\n" for name in names)
    passed = "".join(f"{name}={value}\n" for name, value in env.items())
    include = "@".join(f"{name}:{indices}" for name in names)
    where = ("--hostfile", "hostfile", "--include", include, "--master_addr", meet.host)
    argv = (*runner, *where, "--master_port", str(meet.port), *training(plan.folder or ""))
    return [
        Step(says="render.hostfile", params={"nodes": resolved.nodes}, text=_written("hostfile", hosts)),
        Step(says="render.deepspeed-env", params={}, text=_written(".deepspeed_env", passed)),
        Step(says="render.deepspeed", params={}, text=_prefixed(plan, argv, env)),
    ]


def _indices(resolved: Resolved, host: HostFacts) -> list[str]:
    numbers = {gpu.uuid: str(gpu.index) for gpu in host.gpus}
    return [numbers[uuid] for uuid in resolved.gpus if uuid in numbers]


def _slurm(plan: Plan, resolved: Resolved, meet: Place, host: HostFacts) -> list[Step]:
    """A script for sbatch: one task a node, which is an agent of torchrun; Slurm hands out the GPUs."""
    local = resolved.batch.gpus // resolved.nodes
    run, folder = plan.run_id or "run", plan.folder or ""
    head = [
        "#!/bin/bash",
        f"#SBATCH --job-name={_name(run)}",
        f"#SBATCH --nodes={resolved.nodes}",
        "#SBATCH --ntasks-per-node=1",
        f"#SBATCH --cpus-per-task={local * resolved.threads}",
        *([f"#SBATCH --gpus-per-node={local}"] if resolved.device == "cuda" else []),
        f"#SBATCH --output={shlex.quote(folder + '/logs/slurm-%j.log')}",
        "",
        "set -euo pipefail",
        f"unset {' '.join(_taken(plan, keep=DEVICES))}",
    ]
    left_out = {*DEVICES, "GLOO_SOCKET_IFNAME"} if resolved.device == "cuda" or resolved.nodes > 1 else set(DEVICES)
    exports = [f"export {n}={shlex.quote(v)}" for n, v in plan.env.items() if n not in left_out]
    body = [f"srun --kill-on-bad-exit=1 {shlex.join(plan.argv)}"]
    if resolved.nodes > 1:
        agent = [
            "srun --kill-on-bad-exit=1",
            shlex.join((plan.argv[0], "-m", "torch.distributed.run")),
            f"--nnodes {resolved.nodes}",
            f"--nproc-per-node {local}",
            "--rdzv-backend c10d",
            f'--rdzv-endpoint "$first:{meet.port}"',
            f'--rdzv-id {shlex.quote(run)}-"$SLURM_JOB_ID"',
            shlex.join(training(folder)),
        ]
        # no `| head`: what writes into a closed pipe fails, and with it the script
        names = 'names=$(scontrol show hostnames "$SLURM_JOB_NODELIST")'
        body = [names, "first=${names%%$'\\n'*}", " \\\n  ".join(agent)]
    script = "\n".join([*head, *exports, *body]) + "\n"
    submit = shlex.join(("sbatch", "zeroboard.sbatch"))
    return [
        Step(says="render.slurm", params={"nodes": resolved.nodes}, text=_written("zeroboard.sbatch", script)),
        Step(says="render.submit", params={}, text=submit),
    ]


def _prepare(plan: Plan) -> tuple[str, ...]:
    """Convert the model and tokenise the data, which the ranks expect to be there."""
    return (plan.argv[0], "-m", "zeroboard.runs", "prepare", plan.folder or "")


def _prefixed(plan: Plan, argv: tuple[str, ...], env: dict[str, str] | None = None) -> str:
    """A command with the plan's environment in front, an argument (with its value) a line."""
    values = plan.env if env is None else env
    away = [f"-u {name}" for name in _taken(plan) if name not in values]
    lines = ["env " + " ".join(away)] if away else ["env"]
    lines += [f"{name}={shlex.quote(value)}" for name, value in values.items()]
    lines.append(shlex.join(argv))
    return " \\\n  ".join(lines)


def _taken(plan: Plan, keep: tuple[str, ...] = ()) -> list[str]:
    return [name for name in plan.scrubbed if name not in keep]


def _written(name: str, content: str) -> str:
    """Shell text that writes a file."""
    return f"cat > {shlex.quote(name)} <<'END'\n{content}END"


def _name(run: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", run)
