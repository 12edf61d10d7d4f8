"""The same plan for other launchers, in words and as text for a shell."""

from __future__ import annotations

from zeroboard.contract.host import HostFacts
from zeroboard.contract.plan import Plan
from zeroboard.contract.spec import RunSpec
from zeroboard.errors import UsageError
from zeroboard.messages import Language, say
from zeroboard.paths import Paths
from zeroboard.planning.render import LAUNCHERS, Launcher, Rendered
from zeroboard.planning.render import render as rendered
from zeroboard.services import host as hosts


def render(paths: Paths, plan: Plan, spec: RunSpec, launcher: Launcher) -> Rendered:
    """The texts of a launcher. Raises `Refused` for a plan with errors, `UsageError` for several nodes that are one."""
    if launcher == "nodes" and spec.devices.nodes == 1:
        raise UsageError("error.render-nodes")
    return rendered(plan, spec, launcher, hosts.facts(paths))


def all_others(plan: Plan, spec: RunSpec, host: HostFacts) -> tuple[Rendered, ...]:
    """Every launcher but the one that Start uses: of a plan for several nodes that one is theirs."""
    if plan.resolved is None:
        return ()
    own = {"torchrun"} if spec.devices.nodes > 1 else {"torchrun", "nodes"}
    return tuple(rendered(plan, spec, launcher, host) for launcher in LAUNCHERS if launcher not in own)


def text(value: Rendered, language: Language = "en") -> str:
    """All steps as one text, what each is for in a comment above it; a script for sbatch keeps its first line first."""
    parts = []
    for step in value.steps:
        words = f"# {say(step.says, language, **step.params)}\n"
        parts.append(words + step.text.rstrip())
    return "\n\n".join(parts) + "\n"
