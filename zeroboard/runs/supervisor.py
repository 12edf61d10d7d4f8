"""The supervisor: one small process a run, which outlives page and command line and tells the truth about the run.

It takes the run's lock and those of its devices, prepares, launches, watches, stops, and has the result verified. Where
it dies itself, `adopt` takes over what still runs, or finishes the book-keeping.
"""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Callable

from zeroboard import swapfolders
from zeroboard.contract.problems import Problem
from zeroboard.contract.state import ENDED, RunState
from zeroboard.errors import NotFound, ZeroBoardError
from zeroboard.files import DISK_FULL, append_line, write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs import ending, preparing
from zeroboard.runs.context import Context, Failed, Removed, Stopped, Timing, disk_full
from zeroboard.runs.failure import QUOTED
from zeroboard.runs.launcher import Popen
from zeroboard.runs.life import Life
from zeroboard.runs.locks import Lock, device_lock, run_lock
from zeroboard.runs.processes import kill_marked, own_mark
from zeroboard.runs.registry import read_plan, read_state
from zeroboard.runs.watch import Launcher, Watch, find_launcher, launch

log = logging.getLogger(__name__)

TAKEN = 3
"""Exit code: the run, or a device, is in somebody else's hands; nothing was changed."""
UNSAID = 4
"""Exit code: the last word could not be written."""


def supervise(
    run: RunPaths,
    *,
    adopt: bool = False,
    popen: Popen = subprocess.Popen,
    timing: Timing | None = None,
    write: Callable[..., None] = write_atomic,
    append: Callable[..., None] = append_line,
) -> int:
    """Live a planned run to its end, or (`adopt`) go on with one whose supervisor died; returns an exit code.

    Raises `NotFound`, `BrokenFile` where the folder is no run.
    """
    lock = run_lock(run.lock)
    try:
        if not lock.take(run.id):
            log.warning("another supervisor holds %s", run.id)
            return TAKEN
    except FileNotFoundError as error:  # removed since it was asked for
        raise NotFound("error.run-not-found", run=run.id) from error
    devices: list[Lock] = []
    try:
        state = read_state(run)
        if state.state in ENDED or (state.state == "planned") == adopt:
            log.warning("nothing to do for a run in state %s", state.state)
            return TAKEN
        devices = _take_devices(run, state)
        if len(devices) < len(state.devices) and not adopt:
            return TAKEN
        life, timing = Life(run, state, write=write, append=append), timing or Timing()
        life.set_aside()
        try:
            plan = read_plan(run)
        except ZeroBoardError as error:
            if not adopt:
                raise
            log.error("%s", error)
            _give_up(life)
        else:
            _Supervisor(Context(run=run, plan=plan, life=life, popen=popen, timing=timing)).live(adopt=adopt)
        return 0 if life.settle(patience=timing.settle) and not life.gone else UNSAID
    finally:
        for held in (*devices, lock):
            held.release()


def prepare_only(run: RunPaths, *, popen: Popen = subprocess.Popen, timing: Timing | None = None) -> int:
    """What comes before the ranks, for a run that another launcher starts; it stays `planned`. Returns an exit code.

    Raises `NotFound`, `BrokenFile` where the folder is no run.
    """
    state, plan = read_state(run), read_plan(run)
    lock = run_lock(run.lock)
    if state.state != "planned" or not lock.take(run.id):
        log.warning("nothing to prepare for a run in state %s", state.state)
        return TAKEN
    try:
        life = Life(run, state)
        try:
            preparing.prepare(Context(run=run, plan=plan, life=life, popen=popen, timing=timing or Timing()))
        except Failed as failed:
            log.error("%s %s", failed.problem.code, failed.problem.params)
            return 1
        except Stopped:
            return TAKEN
        finally:
            life.note(phase=None, phase_done=None)
            life.settle(patience=(timing or Timing()).settle)
        return 0
    finally:
        lock.release()


def _take_devices(run: RunPaths, state: RunState) -> list[Lock]:
    """Its devices' locks: all of them, or (so that two runs never wait for each other) those before the first held."""
    paths = Paths(run.folder.parent.parent)
    taken: list[Lock] = []
    for device in sorted(state.devices):
        lock = device_lock(paths, device)
        if not lock.take(run.id):
            log.warning("%s is held by another run", device)
            break
        taken.append(lock)
    return taken


def _give_up(life: Life) -> None:
    """Without its plan a run cannot be gone on with: end what is left of it, or everybody who looks would try again."""
    kill_marked(life.run.id, since=life.state.created)
    problem = Problem(code="plan-changed", says="run.failed.changed", params={"file": life.run.plan.name})
    life.go("failed", problem=problem, phase=None, phase_done=None)


class _Supervisor:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.watch = Watch(context)
        self.launcher: Launcher | None = None

    def live(self, *, adopt: bool) -> None:
        """To the end, whatever happens: a failure of our own is one of the run, and is said."""
        life = self.context.life
        try:
            if adopt:
                self._adopt()
            else:
                self._begin()
        except Failed as failed:
            self._end(failed.problem)
        except Stopped:
            request = self.context.stop_request()
            life.go("stopping", stop="discard" if request is not None and request.discard else "save")
            life.go("stopped", phase=None, phase_done=None)
        except Removed as removed:
            log.error("%s was removed while it ran", removed)
            self.watch.end_all(self.launcher)
        except OSError as error:
            log.exception("the supervisor failed")
            self._end(disk_full(self.context.run) if error.errno in DISK_FULL else _own(error))
        except Exception as error:
            log.exception("the supervisor failed")
            self._end(_own(error))
        finally:  # no rank lives any more, and one that was killed has removed nothing
            swapfolders.remove(swapfolders.planned(dict(self.context.plan.files)), self.context.run)

    def _begin(self) -> None:
        context = self.context
        context.life.go("starting", started=time.time(), supervisor=own_mark())
        preparing.prepare(context)
        if context.stop_request() is not None:
            raise Stopped
        self._train(launch(context))

    def _train(self, launcher: Launcher) -> None:
        self.launcher = launcher
        self.watch.follow(launcher)
        ending.conclude(self.context, self.watch)

    def _adopt(self) -> None:
        context, watch = self.context, self.watch
        life = context.life
        events = watch.follower.read()
        life.resume(max((e.seq for e in events if e.rank < 0), default=0))
        watch.take(events)
        watch.alarm.inherit(events)
        life.note(supervisor=own_mark())
        launcher = find_launcher(context)
        if launcher is not None:
            log.info("adopted a launcher that still runs: %d", launcher.mark.pid)
            life.flush(force=True)
            self._train(launcher)
            return
        kill_marked(context.run.id, since=life.state.created)
        watch.take(watch.follower.read())
        watch.alarm.close()
        verifying = life.state.state == "verifying"
        life.go("lost")
        if watch.end is not None or watch.errors or verifying:
            ending.conclude(context, watch)
        elif context.stop_request() is not None and not watch.training:
            life.go("stopped", stop="save", phase=None, phase_done=None)
        else:
            raise Failed(Problem(code="killed-by-signal", says="run.failed.supervisor-died"))

    def _end(self, problem: Problem) -> None:
        self.watch.end_all(self.launcher)
        self.context.life.go("failed", problem=problem, phase=None, phase_done=None)


def _own(error: Exception) -> Problem:
    return Problem(
        code="python-exception",
        says="run.failed.supervisor",
        params={"type": type(error).__name__, "message": str(error)[:QUOTED], "file": "supervisor.log"},
    )
