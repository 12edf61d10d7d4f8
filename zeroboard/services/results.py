"""What came out of the runs, and folders from elsewhere: verify them, talk to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from pydantic import JsonValue

from zeroboard.chat.session import ChatSession
from zeroboard.checkpoints.inspect import inspect
from zeroboard.checkpoints.verify import make_report, verify_files
from zeroboard.contract.problems import Problem
from zeroboard.contract.prompts import read_prompts
from zeroboard.contract.reports import Kind, Verdict, VerifyReport
from zeroboard.contract.requests import Progress, TrainedRows, VerifyRequest
from zeroboard.contract.state import LIVE, RunState
from zeroboard.errors import Busy, NotFound, Refused, ZeroBoardError
from zeroboard.files import to_json, write_atomic
from zeroboard.paths import RUN_ID, Paths, RunPaths, reachable
from zeroboard.planning.specs import read_spec
from zeroboard.runs import registry, snapshot, verbs
from zeroboard.runs.ending import trained_rows
from zeroboard.runs.locks import holders

CHECKPOINT = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Something that came out: the result of a run, one of its checkpoints, or a folder that a person named."""

    id: str
    """`RUN`, `RUN/checkpoint-N`, or the folder's absolute path."""
    run_id: str | None
    """None for a folder that a person named."""
    name: str
    """Of the run; of the folder."""
    created: float | None
    """When the run was; None for a folder that a person named."""
    step: int | None
    """Of a checkpoint."""
    folder: Path
    base: Path | None
    """The model that was trained."""
    kind: Kind
    """As its report says, else by its files' names."""
    verdict: Verdict | None
    """None: not verified."""
    facts: Mapping[str, JsonValue]
    """What is known of it: by its report, else by its files' names and headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """What ending an engine process gave back. Bytes."""

    pid: int
    gone: bool
    """No process of that number is left."""
    held: int
    """Of the host's memory, by the process, before."""
    free_before: int
    """Of the host's memory, on the whole machine."""
    free_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder to verify or to talk to."""

    path: Path
    base: Path | None = None
    trusted: bool = False
    """It came out of a run whose model may run code of its own: what was said of the model holds for its result."""


def outputs(paths: Paths) -> tuple[Output, ...]:
    """What came out of every run, newest run first: its result, then its checkpoints, newest first."""
    found = []
    for state in registry.list_runs(paths):
        run = paths.run(state.id)
        base = base_of(paths, state.id)
        if run.model.is_dir() and any(run.model.iterdir()):
            found.append(_output(state, run, run.model, None, base))
        for step in _checkpoints(run):
            found.append(_output(state, run, run.checkpoints / f"checkpoint-{step}", step, base))
    return tuple(found)


def output(paths: Paths, name: str) -> Output:
    """The one with that id; a folder only if it is there. Raises `NotFound`."""
    if name.startswith("/"):
        return foreign(name)
    run_id, _, checkpoint = name.partition("/")
    run = paths.run(run_id)
    step = CHECKPOINT.fullmatch(checkpoint)
    folder = run.checkpoints / checkpoint if step else run.model
    if (checkpoint and not step) or not folder.is_dir():
        raise NotFound("error.no-result", run=name)
    state = _state(paths, run_id)
    return _output(state, run, folder, int(step[1]) if step else None, base_of(paths, run_id))


def foreign(path: str, base: str | None = None) -> Output:
    """A folder (or a safetensors file) from elsewhere, by its path. It is read, and never written to.

    Raises `NotFound` where there is nothing, also where the base that is named is not there.
    """
    folder = there(path)
    found = inspect(folder)
    return Output(
        id=str(folder),
        run_id=None,
        name=folder.name or str(folder),
        created=None,
        step=None,
        folder=folder,
        base=there(base) if base else None,
        kind=found.kind,
        verdict=None,
        facts=found.facts,
    )


def report_file(paths: Paths, found: Output) -> Path | None:
    """Where the report of an output is kept; None for a folder that a person named."""
    if found.run_id is None:
        return None
    run = paths.run(found.run_id)
    return run.verify_report if found.step is None else run.reports / f"verify-checkpoint-{found.step}.json"


def read_report(paths: Paths, found: Output) -> VerifyReport | None:
    """The report that is kept; None where there is none."""
    file = report_file(paths, found)
    return snapshot.read_report(file) if file is not None else None


def verify_output(
    paths: Paths, found: Output, *, on_progress: Callable[[Progress], None] | None = None
) -> VerifyReport:
    """Verify with a reload, and keep the report in the run's folder.

    Raises `Busy` for the result of a run that is still at work on it, and what `verify` raises.
    """
    if found.run_id is not None and found.step is None and _state(paths, found.run_id).state in LIVE:
        raise Busy("error.result-unfinished", run=found.run_id)
    rows = rows_of(paths, found.run_id) if found.run_id is not None else None
    report = verify(
        found.folder,
        base=found.base,
        load=True,
        rows=rows,
        trusted=trusts(paths, found.run_id),
        prompts=read_prompts(paths),
        on_progress=on_progress,
    )
    file = report_file(paths, found)
    if file is not None:
        write_atomic(file, to_json(report.model_dump(mode="json")))
    return report


def verdict(paths: Paths, run_id: str) -> Verdict | None:
    """What the verification of a run's result said; None where it was not verified."""
    report = snapshot.read_report(paths.run(run_id).verify_report)
    return report.verdict if report is not None else None


def place(paths: Paths, word: str, base: str | None = None) -> Place:
    """The folder that a person means: a path, or a run (an id, the beginning of one, `last`) whose result it is.

    `base` names another base than the run's own. Raises `NotFound` for both.
    """
    found = _place(paths, word)
    return found if base is None else replace(found, base=there(base))


def _place(paths: Paths, word: str) -> Place:
    path = reachable(word)
    if path is not None:
        return Place(path=path)
    if not RUN_ID.fullmatch(word):
        raise NotFound("error.path-not-found", path=word)
    run = registry.find(paths, word)
    if not run.model.is_dir():
        raise NotFound("error.no-result", run=run.id)
    return Place(path=run.model, base=base_of(paths, run.id), trusted=trusts(paths, run.id))


def trusts(paths: Paths, run_id: str | None) -> bool:
    """Whether a run's spec lets the model run Python code of its own."""
    if run_id is None:
        return False
    try:
        spec, _ = read_spec(paths.run(run_id).spec)
    except ZeroBoardError:
        return False
    return spec is not None and spec.model.trust_remote_code


def verify(
    path: Path,
    *,
    base: Path | None = None,
    load: bool,
    rows: TrainedRows | None = None,
    trusted: bool = False,
    prompts: Sequence[str] = (),
    on_progress: Callable[[Progress], None] | None = None,
) -> VerifyReport:
    """Judge a folder (or a safetensors file): its files, and with `load` also by reloading it in a fresh process.

    Heard with `load`: `rows`, what it was trained on; `trusted`, its own code may run; `prompts`, asked beside the
    fixed ones.

    Raises `NotFound`, `Refused` where the engine could not judge it, `EngineFailed`.
    """
    for wanted in (path, base):
        if wanted is not None and not wanted.exists():
            raise NotFound("error.path-not-found", path=str(wanted))
    if not load:
        return make_report(path, verify_files(path, base=base))
    request = VerifyRequest(path=str(path), base=str(base) if base is not None else None, load=True, rows=rows,
        prompts=tuple(prompts), trust_remote_code=trusted,
    )  # fmt: skip
    answer = verbs.call("verify", request, on_progress=on_progress)
    if answer.problems:
        raise Refused(answer.problems)
    return VerifyReport.model_validate(answer.value)


def open_chat(
    paths: Paths,
    path: Path,
    base: Path | None = None,
    *,
    trusted: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    log_to: Path | None = None,
) -> ChatSession:
    """Hold a model to talk to; the process lives until the session is closed.

    Raises `NotFound`, `Refused` where it cannot be loaded (where it does not fit, the runs that hold the devices are
    named), `EngineFailed`.
    """
    if not path.exists():
        raise NotFound("error.path-not-found", path=str(path))
    try:
        return ChatSession.open(path, base=base, trust_remote_code=trusted, on_progress=on_progress, log_to=log_to)
    except Refused as refused:
        if not {problem.code for problem in refused.problems} & {"gpu-busy", "host-memory"}:
            raise
        raise Refused((*refused.problems, *_holding(paths))) from refused


def _holding(paths: Paths) -> tuple[Problem, ...]:
    """The runs that hold devices at this moment, as reasons why there is no room."""
    return tuple(
        Problem(code="gpu-busy", says="error.devices-busy", params={"devices": device, "run": run})
        for device, run in sorted(holders(paths).items())
    )


def unload(session: ChatSession) -> Freed:
    """End the engine process of a session and measure what that gave back."""
    pid, held, before = session.pid, session.memory(), int(psutil.virtual_memory().available)
    session.close()
    return Freed(
        pid=pid,
        gone=not session.alive and not psutil.pid_exists(pid),
        held=held,
        free_before=before,
        free_after=int(psutil.virtual_memory().available),
    )


def _output(state: RunState, run: RunPaths, folder: Path, step: int | None, base: Path | None) -> Output:
    file = run.verify_report if step is None else run.reports / f"verify-checkpoint-{step}.json"
    report = snapshot.read_report(file)
    found = report if report is not None else inspect(folder)
    return Output(
        id=state.id if step is None else f"{state.id}/{folder.name}",
        run_id=state.id,
        name=state.name,
        created=state.created,
        step=step,
        folder=folder,
        base=base,
        kind=found.kind,
        verdict=report.verdict if report is not None else None,
        facts=found.facts,
    )


def _state(paths: Paths, run_id: str) -> RunState:
    """As the list of runs tells it, so that an unreadable state hides no result."""
    for state in registry.list_runs(paths):
        if state.id == run_id:
            return state
    raise NotFound("error.run-not-found", run=run_id)


def _checkpoints(run: RunPaths) -> list[int]:
    """Steps of the checkpoints that are there, newest first."""
    if not run.checkpoints.is_dir():
        return []
    names = (CHECKPOINT.fullmatch(entry.name) for entry in run.checkpoints.iterdir() if entry.is_dir())
    return sorted((int(name[1]) for name in names if name), reverse=True)


def there(path: str) -> Path:
    """What a person named, absolute. Raises `NotFound`."""
    found = reachable(path.strip())
    if found is None:
        raise NotFound("error.path-not-found", path=path)
    return found


def rows_of(paths: Paths, run_id: str) -> TrainedRows | None:
    """What a run was trained on; None where its plan or spec cannot be read."""
    run = paths.run(run_id)
    try:
        spec, _ = read_spec(run.spec)
        return trained_rows(paths, registry.read_plan(run), spec) if spec is not None else None
    except ZeroBoardError:
        return None


def base_of(paths: Paths, run_id: str) -> Path | None:
    """The model that a run trained, from its plan; None where the plan cannot be read or the model is gone."""
    try:
        plan = registry.read_plan(paths.run(run_id))
    except ZeroBoardError:
        return None
    if plan.resolved is None:
        return None
    base = Path(plan.resolved.model_path)
    return base if base.is_dir() else None
