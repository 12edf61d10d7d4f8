"""From a wish to a plan to a run's folder: what Preview shows is what Start runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zeroboard.catalogue import DATASETS, DEMO_SPEC, MODELS
from zeroboard.contract.folders import FolderFacts
from zeroboard.contract.host import HostFacts
from zeroboard.contract.plan import ModelFacts, Plan, Promise, TokenFacts, read_tokens
from zeroboard.contract.problems import Problem, errors
from zeroboard.contract.reports import DataReport
from zeroboard.contract.spec import RunSpec, Stage
from zeroboard.contract.toolchain import Toolchain
from zeroboard.errors import Refused
from zeroboard.monitor.folders import folder_facts
from zeroboard.paths import Paths, reachable
from zeroboard.planning import hub, specs
from zeroboard.planning.holding import every_stage
from zeroboard.planning.models import read_model
from zeroboard.planning.planner import make_plan
from zeroboard.planning.steps import uncounted
from zeroboard.planning.tokens import spec_key
from zeroboard.runs import registry
from zeroboard.services import host as hosts
from zeroboard.services import toolchain as tools
from zeroboard.services.folders import output_folder
from zeroboard.services.judging import Judgement, absent, data_file, from_hub, judged_now, located
from zeroboard.services.preflight import needs_toolchain, port_problems
from zeroboard.services.tokens import OnTokens, of_spec
from zeroboard.services.uploads import uploads

DEMO = "demo"
"""The word that stands for the bundled spec."""


RECENT = 8
"""How many folders of earlier runs are offered as models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What can be chosen by name."""

    models: tuple[str, ...]
    """Bundled models, folders in `cache/models/`, what came from a hub, then what runs used lately."""
    datasets: tuple[str, ...]
    """Bundled data sets, files that came through the page, and what came from a hub."""


def load_spec(word_or_path: str, sets: Sequence[str] = ()) -> RunSpec:
    """The spec of a file (YAML or JSON) or of the word `demo`, with `--set` values over it.

    Raises `NotFound`/`UsageError` where there is no such file or a `--set` makes no sense, `Refused` with every problem
    of the spec.
    """
    path = DEMO_SPEC if word_or_path == DEMO else Path(word_or_path)
    return checked(specs.with_sets(specs.read_value(path), sets))


def default_spec() -> RunSpec:
    """The demo's spec: where the page begins."""
    return load_spec(DEMO)


def check_spec(value: Mapping[str, Any]) -> tuple[RunSpec | None, tuple[Problem, ...]]:
    """The spec of a mapping, or every problem in it."""
    return specs.parse_spec(value)


def checked(value: Mapping[str, Any]) -> RunSpec:
    """The spec of a mapping; raises `Refused` with every problem."""
    spec, problems = specs.parse_spec(value)
    if spec is None or errors(problems):
        raise Refused(problems)
    return spec


def choices(paths: Paths) -> Choices:
    """The models and data sets that have a name here."""
    bundled = [model.name for model in MODELS]
    folders = sorted(p.name for p in paths.models.glob("*") if (p / "config.json").is_file())
    models = [*bundled, *(str(paths.models / name) for name in folders if name not in bundled)]
    models += hub.names(paths)
    lately = dict.fromkeys(state.model for state in registry.list_runs(paths))
    models += [path for path in lately if path not in models and _is_folder(path)][:RECENT]
    own = [str(upload.path) for upload in uploads(paths)]
    return Choices(models=tuple(models), datasets=(*DATASETS, *own, *hub.names(paths, "dataset")))


def _is_folder(path: str) -> bool:
    found = reachable(path)
    return found is not None and found.is_dir()


def plan(paths: Paths, spec: RunSpec, *, host: HostFacts | None = None, judged: Judgement | None = None) -> Plan:
    """Everything that Start would do, problems included. Writes nothing.

    `judged`: how far the data is; None: it is judged now, however long that takes.
    """
    return _plan(_facts(paths, spec, host, judged=judged), spec, paths)


def stages(spec: RunSpec, model: ModelFacts, host: HostFacts) -> Mapping[Stage, Promise]:
    """What each rank would hold at every stage, all else being as asked; empty where the model's shapes are unknown."""
    return every_stage(spec, model, host)


def prepare(paths: Paths, spec: RunSpec, *, on_progress: OnTokens | None = None) -> Plan:
    """Write the folder of a run, state `planned`. Raises `Refused` with the plan's problems where one is an error.

    Where DeepSpeed's schedule counts steps the data is tokenised first (`on_progress` follows it); then `EngineFailed`
    may be raised as well.
    """
    facts = _facts(paths, spec, None, thorough=True)
    first = _plan(facts, spec, paths)
    if first.ok and uncounted(spec, _steps(first)):
        seen = of_spec(paths, spec, start=True, on_progress=on_progress)
        facts = replace(facts, tokens=seen.tokens if seen is not None else None)
        first = _plan(facts, spec, paths)
    if not first.ok:
        raise Refused(first.problems)
    if uncounted(spec, _steps(first)):
        says, name = "problem.scheduler-conflict.steps", {"name": spec.zero.scheduler}
        raise Refused([Problem(code="scheduler-conflict", field="zero.scheduler", says=says, params=dict(name))])
    return registry.create(paths, spec, lambda run_id: _plan(facts, spec, paths, run_id))


def _steps(plan: Plan) -> int | None:
    return plan.resolved.steps if plan.resolved is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What a plan is made of, besides the spec."""

    host: HostFacts
    model: ModelFacts | None
    data: DataReport | None
    tokens: TokenFacts | None
    problems: tuple[Problem, ...]
    toolchain: Toolchain | None
    output: FolderFacts


def _facts(
    paths: Paths, spec: RunSpec, host: HostFacts | None, *, judged: Judgement | None = None, thorough: bool = False
) -> _Facts:
    """`thorough`: torch is asked where it was not yet (that it cannot be imported is told by the preflight), and a file
    is tried in the output's folder."""
    model, problems = read_model(spec.model.path, paths)
    if model is not None and model.remote_code and spec.model.trust_remote_code:
        lacking = hub.without_code(spec.model.path, paths)
        problems = (*problems, *([lacking] if lacking is not None else []))
    judged = judged or judged_now(paths, spec.data)
    data, missing = judged.report, judged.problem(spec.data.path, spec.data.mix)
    if data is not None and hub.names_hub(spec.data.path):
        data = data.model_copy(update={"commit": from_hub(paths, spec.data.path).manifest.commit})
    of_hub = [path for path in spec.data.mix.paths if hub.names_hub(path)]
    if data is not None and of_hub:
        data = data.model_copy(update={"commits": {path: from_hub(paths, path).manifest.commit for path in of_hub}})
    if missing is not None:
        problems = (*problems, *(absent(paths, spec.data) or (missing,)))
    host = host or hosts.facts(paths)
    ask = thorough and needs_toolchain(spec, host)
    return _Facts(
        host=host,
        model=model,
        data=data,
        tokens=_tokens(paths, spec, model, data),
        problems=(*problems, *port_problems(spec, host)),
        toolchain=tools.ask_or_say(paths, host)[0] if ask else tools.known(paths, host),
        output=output_folder(paths, tried=thorough),
    )


def _plan(facts: _Facts, spec: RunSpec, paths: Paths, run_id: str | None = None) -> Plan:
    return make_plan(
        spec,
        host=facts.host,
        paths=paths,
        model=facts.model,
        data=facts.data,
        tokens=facts.tokens,
        problems=facts.problems,
        toolchain=facts.toolchain,
        output=facts.output,
        swap=folder_facts(spec.zero.nvme_path) if spec.zero.nvme_path else None,
        run_id=run_id,
    )


def _tokens(paths: Paths, spec: RunSpec, model: ModelFacts | None, data: DataReport | None) -> TokenFacts | None:
    """What tokenising gave, where that was done before."""
    if model is None or data is None:
        return None
    key = spec_key(spec, data_file(located(paths, spec.data.path)), model, data.mix.as_weighed(spec.data.mix))
    return read_tokens(paths.tokens / key)
