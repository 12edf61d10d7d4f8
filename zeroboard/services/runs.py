"""Start, stop, list and look at runs."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

from zeroboard.contract.requests import StopRequest, read_stop
from zeroboard.contract.state import ENDED, RunState
from zeroboard.errors import BrokenFile, Busy, EngineFailed, NotFound, Refused
from zeroboard.files import to_json, write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.planning.specs import read_spec
from zeroboard.runs import launcher, registry
from zeroboard.runs.launcher import Popen
from zeroboard.runs.locks import holder, holders, run_lock
from zeroboard.runs.snapshot import SnapshotReader
from zeroboard.services import preflight

STARTED = 120.0
"""Seconds in which a supervisor has to take over; a busy machine needs some to start a Python at all."""
LETTING_GO = 5.0
"""Seconds in which the supervisor of a run that has ended has to let go of its devices: it says the end first."""


def start(paths: Paths, run_id: str, *, popen: Popen = subprocess.Popen) -> RunState:
    """Start a planned run; returns as soon as its supervisor has taken over.

    Raises `NotFound`; `BrokenFile` where its files are damaged; `Busy` where it was started already or a device is
    held by another run; `Refused` where the machine has changed since the plan was made and the run would end badly;
    `EngineFailed` where the supervisor could not begin: then none will later on either.
    """
    run = paths.run(run_id)
    state = registry.read_state(run)
    if state.state != "planned":
        raise Busy("error.run-started", run=run_id, state=state.state)
    plan = registry.read_plan(run)  # a supervisor could only write into its log that it is broken
    _refuse_busy(paths, state)
    problems = preflight.before_start(paths, plan, read_spec(run.spec)[0])
    if problems:
        raise Refused(problems)
    process = launcher.start(run, popen=popen)
    until = time.monotonic() + STARTED
    while True:
        ended = process.poll() is not None
        if not ended and time.monotonic() > until:
            ended = _called_off(run, process)
        state = registry.read_state(run)
        if state.state != "planned":
            return state
        if ended:
            break
        time.sleep(0.05)
    _refuse_busy(paths, state)
    raise EngineFailed("error.supervisor-failed", verb="supervise", code=process.poll(), tail=_tail(run))


def _called_off(run: RunPaths, process: subprocess.Popen[Any]) -> bool:
    """End a supervisor that has not taken over, so that it does not start later; False where it does at this moment.

    Whoever holds the run's lock decides: with it in our hands, no supervisor begins.
    """
    lock = run_lock(run.lock)
    if not lock.take(run.id):
        return False
    try:
        process.kill()
        process.wait()
    finally:
        lock.release()
    return True


def drop(paths: Paths, run_id: str) -> bool:
    """Remove a planned run that is not wanted; False where it was started. Raises `NotFound`, `BrokenFile`."""
    return registry.drop_planned(paths.run(run_id))


def stop(paths: Paths, run_id: str, *, discard: bool = False) -> RunState:
    """Ask a run to stop: it saves first, or (`discard`) leaves nothing. Returns at once, with what holds now.

    A stop that was asked for before may be sharpened from saving to discarding, not the other way. Raises `NotFound`;
    `Busy` where the run was never started or has ended.
    """
    run = paths.run(run_id)
    state = registry.read_state(run)
    if state.state in ENDED or state.state == "planned":
        raise Busy("error.run-not-running", run=run_id, state=state.state)
    before = read_stop(run)
    if before is None or (discard and not before.discard):
        request = StopRequest(discard=discard, time=time.time())
        write_atomic(run.stop_request, to_json(request.model_dump(mode="json")))
    adopt_orphans(paths)
    asked = read_stop(run)
    wish = "discard" if asked is not None and asked.discard else "save"
    return registry.read_state(run).model_copy(update={"stop": wish})


def stop_asked(paths: Paths, run_id: str) -> bool:
    """Whether a stop was asked of a run, also where its supervisor has not seen it yet."""
    return paths.run(run_id).stop_request.is_file()


def list_runs(paths: Paths) -> tuple[RunState, ...]:
    """Every run, newest first; one whose supervisor died is `lost`, as is a folder that cannot be read."""
    return registry.list_runs(paths)


def find(paths: Paths, word: str) -> str:
    """The id that a person means: an id, an unambiguous beginning, or `last`. Raises `NotFound`."""
    return registry.find(paths, word).id


def plan_file(paths: Paths, run_id: str, name: str) -> Path:
    """A file that the plan of a run consists of, by its name; raises `NotFound` for any other."""
    run = paths.run(run_id)
    if name not in registry.read_plan(run).files:
        raise NotFound("error.plan-file-not-found", run=run_id, name=name)
    return run.folder / name


def reader(paths: Paths, run_id: str) -> SnapshotReader:
    """The read model of a run; raises `NotFound`."""
    run = paths.run(run_id)
    if not run.folder.is_dir():
        raise NotFound("error.run-not-found", run=run_id)
    return SnapshotReader(run)


def adopt_orphans(paths: Paths, *, popen: Popen = subprocess.Popen) -> tuple[str, ...]:
    """Start a supervisor for every run whose own died; returns their ids. Harmless when called by several at once."""
    adopted = []
    for state in registry.list_runs(paths):
        run = paths.run(state.id)
        if state.state != "lost" or holder(run.lock) is not None:
            continue
        try:
            registry.read_state(run)
        except BrokenFile:  # listed as unreadable; nobody can finish it
            continue
        launcher.start(run, adopt=True, popen=popen)
        adopted.append(state.id)
    return tuple(adopted)


def _refuse_busy(paths: Paths, state: RunState) -> None:
    """Raises `Busy` where another run trains on one of the devices; one that has ended is waited for."""
    until = time.monotonic() + LETTING_GO
    while True:
        held = holders(paths)
        taken = [device for device in state.devices if device in held]
        if not taken:
            return
        if time.monotonic() > until or not all(_ended(paths, held[device]) for device in taken):
            raise Busy("error.devices-busy", devices=", ".join(taken), run=held[taken[0]])
        time.sleep(0.05)


def _ended(paths: Paths, run_id: str) -> bool:
    try:
        return registry.read_state(paths.run(run_id)).state in ENDED
    except (NotFound, BrokenFile):  # a holder that is just being written, or was removed: no end is known
        return False


def _tail(run: RunPaths) -> str:
    try:
        return run.supervisor_log.read_text(encoding="utf-8", errors="replace")[-2000:].strip()
    except FileNotFoundError:
        return ""
