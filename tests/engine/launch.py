"""A run made by the real planner and started through the real launcher, without the supervisor between."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from zeroboard.contract.events import EVENT, Event
from zeroboard.contract.host import HostFacts
from zeroboard.contract.plan import Plan, plan_json
from zeroboard.contract.requests import TokeniseRequest
from zeroboard.contract.spec import RunSpec
from zeroboard.data.judge import judge
from zeroboard.engine.tokens import tokenise
from zeroboard.files import read_lines, to_json, write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.planning.models import read_model
from zeroboard.planning.planner import make_plan

HOST = HostFacts(
    hostname="test",
    cpu_count=2,
    memory_total=16 << 30,
    memory_available=12 << 30,
    disk_total=100 << 30,
    disk_free=50 << 30,
    shm_total=8 << 30,
    shm_free=8 << 30,
    compiler="/usr/bin/g++",
)
"""Two cores, no GPU, a compiler."""


def plan_run(root: Path, spec: RunSpec, run_id: str = "test-run", *, host: HostFacts = HOST) -> tuple[RunPaths, Plan]:
    """Tokenise, plan, and write the run's folder as the registry does."""
    paths = Paths(root)
    model, problems = read_model(spec.model.path, paths)
    assert model is not None, problems
    data = judge(Path(spec.data.path))
    plan = make_plan(spec, host=host, paths=paths, model=model, data=data, tokens=None, run_id=run_id)
    assert plan.resolved is not None, plan.problems
    tokenise(
        TokeniseRequest(
            data_path=spec.data.path,
            model_path=spec.model.path,
            max_length=spec.data.max_length,
            evaluation=spec.data.evaluation,
            seed=spec.train.seed,
            target=str(paths.tokens / plan.resolved.tokens_key),
        )
    )
    run = paths.run(run_id)
    for name, content in plan.files.items():
        write_atomic(run.folder / name, content)
    write_atomic(run.plan, to_json(plan_json(plan)))
    return run, plan


def start(run: RunPaths, plan: Plan, *, module: str = "zeroboard.engine", **more: str) -> subprocess.Popen[bytes]:
    """The launcher, with its own output in `logs/launcher.log`; `more` is added to its environment."""
    environ = {name: value for name, value in os.environ.items() if name not in plan.scrubbed} | plan.env | more
    argv = [module if word == "zeroboard.engine" else word for word in plan.argv]
    run.logs.mkdir(parents=True, exist_ok=True)
    with run.launcher_log.open("wb") as log:
        return subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)


def wait(process: subprocess.Popen[bytes], run: RunPaths, *, seconds: float = 240) -> int:
    """Its exit code; where it takes longer it is ended with its ranks, and the test fails with what they wrote."""
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        process.terminate()
        process.wait(timeout=60)
        raise AssertionError(f"not over after {seconds} s\n{logs(run)}") from error


def events(run: RunPaths) -> list[Event]:
    """Everything that was said so far; a line that is no event fails the test."""
    return [EVENT.validate_json(line) for line in read_lines(run.events).lines]


def logs(run: RunPaths) -> str:
    """What a failing test shows: the ends of all logs."""
    parts = [f"== {path.name}\n{path.read_text(errors='replace')[-4000:]}" for path in sorted(run.logs.glob("*.log"))]
    return "\n".join(parts)
