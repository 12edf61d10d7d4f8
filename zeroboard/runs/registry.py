"""The registry: the folders of the runs. Made whole or not at all, listed from `state.json` alone."""

from __future__ import annotations

import math
import re
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from zeroboard.contract.plan import Plan, hash_plan, plan_json
from zeroboard.contract.problems import Problem
from zeroboard.contract.spec import RunSpec
from zeroboard.contract.state import LIVE, RunState
from zeroboard.errors import BrokenFile, NotFound, ZeroBoardError
from zeroboard.files import read_whole, sync_folder, to_json, write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs.locks import holder, run_lock
from zeroboard.runs.processes import alive

NEVER_STARTED = 86_400.0
"""Seconds after which the folder of a run that was never started is removed."""

UNREADABLE = "run-unreadable"
"""Code of the problem of a folder whose state cannot be read."""


def new_id(model: str, stage: str, *, now: float | None = None) -> str:
    """An id that sorts by time and tells the model and the stage: `20261129-211004-smollm2-135m-z2-7f3a`."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    words = re.sub(r"[^a-z0-9]+", "-", Path(model).name.lower()).strip("-")
    slug = words[:24].strip("-") or "model"
    how = "ddp" if stage == "none" else f"z{stage}"
    return f"{stamp}-{slug}-{how}-{secrets.token_hex(2)}"


def create(paths: Paths, spec: RunSpec, plan_for: Callable[[str], Plan]) -> Plan:
    """Make the folder of a run, state `planned`: the plan's files, `plan.json` and `state.json`.

    `plan_for` gets the id and returns the plan that is written (and returned). The folder is filled under another name
    and renamed, so nobody ever sees half of it.
    """
    paths.runs.mkdir(parents=True, exist_ok=True)
    remove_never_started(paths)
    while True:
        run_id = new_id(spec.model.path, spec.zero.stage)
        folder = paths.runs / run_id
        plan = plan_for(run_id)
        temporary = paths.runs / f".new-{run_id}"
        temporary.mkdir()
        try:
            fill(RunPaths(temporary), run_id, spec, plan)
            temporary.rename(folder)
        except OSError:
            shutil.rmtree(temporary)
            if folder.exists():  # the same second and the same four digits
                continue
            raise
        sync_folder(paths.runs)
        return plan


def fill(run: RunPaths, run_id: str, spec: RunSpec, plan: Plan) -> None:
    """Write what a planned run consists of into an empty folder."""
    for folder in (run.logs, run.requests, run.reports):
        folder.mkdir()
    for name, content in plan.files.items():
        write_atomic(run.folder / name, content)
    write_atomic(run.plan, to_json(plan_json(plan)))
    now = time.time()
    gpus = plan.resolved.gpus if plan.resolved is not None else ()
    state = RunState(
        id=run_id,
        name=spec.name,
        created=now,
        changed=now,
        model=spec.model.path,
        stage=spec.zero.stage,
        offload=spec.zero.offload,
        method=spec.method.kind,
        ranks=plan.batch.gpus,
        devices=gpus or ("cpu",),
        steps=plan.resolved.steps if plan.resolved is not None else None,
        plan_hash=hash_plan(plan),
    )
    write_atomic(run.state, to_json(state.model_dump(mode="json")))


def read_state(run: RunPaths) -> RunState:
    """The state of a run, as it was written.

    Raises `NotFound` where there is no such run, `BrokenFile` where its state cannot be read.
    """
    try:
        return RunState.model_validate_json(read_whole(run.state))
    except (FileNotFoundError, NotADirectoryError) as error:
        if run.folder.is_dir():
            raise BrokenFile("error.broken-file", path=str(run.state), why="missing") from error
        raise NotFound("error.run-not-found", run=run.id) from error
    except (ValidationError, OSError) as error:
        raise BrokenFile("error.broken-file", path=str(run.state), why=str(error).splitlines()[0]) from error


def seen(state: RunState, run: RunPaths) -> RunState:
    """The state as a looker should see it: `lost` where the supervisor that should move it is dead."""
    if state.state not in LIVE or alive(state.supervisor) or holder(run.lock) is not None:
        return state
    return state.model_copy(update={"state": "lost"})


def read_plan(run: RunPaths) -> Plan:
    """The plan of a run. Raises `NotFound` or `BrokenFile`."""
    try:
        return Plan.model_validate_json(read_whole(run.plan))
    except FileNotFoundError as error:
        if run.folder.is_dir():
            raise BrokenFile("error.broken-file", path=str(run.plan), why="missing") from error
        raise NotFound("error.run-not-found", run=run.id) from error
    except (ValidationError, OSError) as error:
        raise BrokenFile("error.broken-file", path=str(run.plan), why=str(error).splitlines()[0]) from error


def folders(paths: Paths) -> tuple[RunPaths, ...]:
    """Every run's folder, by name."""
    if not paths.runs.is_dir():
        return ()
    return tuple(RunPaths(p) for p in sorted(paths.runs.iterdir()) if p.is_dir() and not p.name.startswith((".", "_")))


def list_runs(paths: Paths) -> tuple[RunState, ...]:
    """Every run, newest first. A folder that cannot be read is in the list, `lost`, with a problem that says why."""
    found = []
    for run in folders(paths):
        try:
            found.append(seen(read_state(run), run))
        except NotFound:  # removed while we looked
            continue
        except ZeroBoardError as error:
            found.append(_unreadable(run, error))
    return tuple(sorted(found, key=lambda s: (s.created, s.id), reverse=True))


def find(paths: Paths, word: str) -> RunPaths:
    """The run that a person means: an id, an unambiguous beginning of one, or `last`.

    Raises `NotFound` where none or several are meant.
    """
    if word == "last":
        runs = [s for s in list_runs(paths) if s.problem is None or s.problem.code != UNREADABLE]
        if not runs:
            raise NotFound("error.no-runs", folder=str(paths.runs))
        return paths.run(runs[0].id)
    exact = paths.run(word)
    if exact.folder.is_dir():
        return exact
    meant = [run for run in folders(paths) if run.id.startswith(word)]
    if len(meant) > 1:
        raise NotFound("error.run-ambiguous", run=word, count=len(meant))
    if not meant:
        raise NotFound("error.run-not-found", run=word)
    return meant[0]


def remove_never_started(paths: Paths, *, now: float | None = None) -> tuple[str, ...]:
    """Remove runs that were planned a day ago and never started, and what a crash left half made; returns the names."""
    limit = (time.time() if now is None else now) - NEVER_STARTED
    removed = []
    for left in paths.runs.glob(".*-*"):
        try:
            if left.is_dir() and left.stat().st_mtime < limit:
                shutil.rmtree(left)
                removed.append(left.name)
        except FileNotFoundError:  # somebody else tidies up at this moment
            continue
    for run in folders(paths):
        try:
            if _never_started(run, limit) and _remove(run, limit):
                removed.append(run.id)
        except ZeroBoardError:  # unreadable: listed as such, and kept
            continue
    return tuple(removed)


def drop_planned(run: RunPaths) -> bool:
    """Remove a run that was not started; False where somebody started it meanwhile. Raises `NotFound`, `BrokenFile`."""
    return _remove(run, math.inf)


def _never_started(run: RunPaths, limit: float) -> bool:
    """A run that another launcher started stays `planned`; its first rank's log tells."""
    state = read_state(run)
    return state.state == "planned" and state.created < limit and not run.rank_log(0).exists()


def _remove(run: RunPaths, limit: float) -> bool:
    """Remove it under its lock, so that a start at this very moment either comes first or finds nothing."""
    lock = run_lock(run.lock)
    try:
        if not lock.take(run.id):
            return False
    except FileNotFoundError as error:  # somebody else removed it at this moment
        raise NotFound("error.run-not-found", run=run.id) from error
    try:
        if not _never_started(run, limit):
            return False
        away = run.folder.with_name(f".gone-{run.id}")
        run.folder.rename(away)
        shutil.rmtree(away)
        return True
    finally:
        lock.release()


def _unreadable(run: RunPaths, error: ZeroBoardError) -> RunState:
    when = run.folder.stat().st_mtime
    return RunState(
        id=run.id,
        state="lost",
        created=when,
        changed=when,
        problem=Problem(code=UNREADABLE, params={"path": str(run.state), "why": str(error.params.get("why", ""))}),
        model="",
        stage="none",
        offload="none",
        method="lora",
        ranks=0,
        devices=(),
        plan_hash="",
    )
