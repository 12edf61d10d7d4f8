"""What came out of the runs: verify it, talk to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zeroboard.chat.session import ChatSession
from zeroboard.checkpoints.verify import verify_files
from zeroboard.contract.reports import Kind, Verdict, VerifyReport, overall
from zeroboard.contract.requests import Progress, VerifyRequest
from zeroboard.errors import NotFound, Refused, ZeroBoardError
from zeroboard.paths import RUN_ID, Paths
from zeroboard.runs import registry, snapshot, verbs


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The result of a run."""

    run_id: str
    name: str
    folder: Path
    base: Path | None
    """The model that was trained."""
    kind: Kind | None
    """None: not verified."""
    verdict: Verdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder to verify or to talk to."""

    path: Path
    base: Path | None = None


def outputs(paths: Paths) -> tuple[Output, ...]:
    """The result of every run that has one, newest first."""
    found = []
    for state in registry.list_runs(paths):
        run = paths.run(state.id)
        if not (run.model.is_dir() and any(run.model.iterdir())):
            continue
        report = snapshot.read_report(run)
        found.append(
            Output(
                run_id=state.id,
                name=state.name,
                folder=run.model,
                base=_base(paths, state.id),
                kind=report.kind if report is not None else None,
                verdict=report.verdict if report is not None else None,
            )
        )
    return tuple(found)


def place(paths: Paths, word: str) -> Place:
    """The folder that a person means: a path, or a run (an id, the beginning of one, `last`) whose result it is.

    Raises `NotFound`.
    """
    path = Path(word).expanduser()
    if path.exists():
        return Place(path=path.absolute())
    if not RUN_ID.fullmatch(word):
        raise NotFound("error.path-not-found", path=word)
    run = registry.find(paths, word)
    if not run.model.is_dir():
        raise NotFound("error.no-result", run=run.id)
    return Place(path=run.model, base=_base(paths, run.id))


def verify(
    path: Path,
    *,
    base: Path | None = None,
    load: bool,
    on_progress: Callable[[Progress], None] | None = None,
) -> VerifyReport:
    """Judge a folder (or a safetensors file): its files, and with `load` also by reloading it in a fresh process.

    Raises `NotFound`, `Refused` where the engine could not judge it, `EngineFailed`.
    """
    for wanted in (path, base):
        if wanted is not None and not wanted.exists():
            raise NotFound("error.path-not-found", path=str(wanted))
    if not load:
        kind, checks, facts = verify_files(path, base=base)
        return VerifyReport(path=str(path), kind=kind, verdict=overall(checks), checks=checks, facts=facts)
    request = VerifyRequest(path=str(path), base=str(base) if base is not None else None, load=True)
    answer = verbs.call("verify", request, on_progress=on_progress)
    if answer.problems:
        raise Refused(answer.problems)
    return VerifyReport.model_validate(answer.value)


def open_chat(path: Path, base: Path | None = None) -> ChatSession:
    """Hold a model to talk to; the process lives until the session is closed. Raises `NotFound`, `EngineFailed`."""
    if not path.exists():
        raise NotFound("error.path-not-found", path=str(path))
    return ChatSession.open(path, base=base)


def _base(paths: Paths, run_id: str) -> Path | None:
    """The model that a run trained, from its plan; None where the plan cannot be read or the model is gone."""
    try:
        plan = registry.read_plan(paths.run(run_id))
    except ZeroBoardError:
        return None
    if plan.resolved is None:
        return None
    base = Path(plan.resolved.model_path)
    return base if base.is_dir() else None
