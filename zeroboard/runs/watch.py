"""Watching the launcher and its ranks: events into the state, and the ladder of a stop.

The ladder: the engine sees the request and leaves by itself; past a deadline SIGTERM to the launcher; past
`Timing.kill` more SIGKILL to whatever carries the run's mark. Before training began there is nothing to save, so
SIGTERM comes at once.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psutil

from zeroboard.contract.events import (
    EndEvent,
    ErrorEvent,
    Event,
    PhaseEvent,
    SaveEvent,
    StepEvent,
    TrainEvent,
)
from zeroboard.contract.problems import Problem
from zeroboard.contract.state import ProcessMark
from zeroboard.runs.alarm import Alarm
from zeroboard.runs.context import Context, Failed
from zeroboard.runs.failure import oom_kills
from zeroboard.runs.follow import Follower
from zeroboard.runs.processes import alive, kill_marked, mark_of, marked, send
from zeroboard.runs.sampling import Sampler

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Launcher:
    """The launcher of a run: our child, or one that a supervisor before us left running."""

    mark: ProcessMark
    process: subprocess.Popen[Any] | None = None

    def running(self) -> bool:
        return self.process.poll() is None if self.process is not None else alive(self.mark)

    @property
    def exit_code(self) -> int | None:
        """None where it runs, or where it is not our child."""
        return self.process.poll() if self.process is not None else None


def launch(context: Context) -> Launcher:
    """Start the launcher: exactly the plan's argv and environment. Raises `Failed`."""
    plan, run = context.plan, context.run
    context.life.phase("launch")
    with run.launcher_log.open("ab") as stream:
        try:
            process = context.popen(
                list(plan.argv),
                cwd=run.folder,
                env=context.environment(),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise Failed(
                Problem(
                    code="python-exception",
                    says="run.failed.launch",
                    params={"command": plan.argv[0] if plan.argv else "", "message": str(error)},
                )
            ) from error
    mark = mark_of(process.pid) or ProcessMark(pid=process.pid, started=time.time())
    context.life.note(launcher=mark)
    context.life.flush(force=True)
    return Launcher(mark, process)


def find_launcher(context: Context) -> Launcher | None:
    """The launcher that a dead supervisor left running; None where none runs."""
    known = context.life.state.launcher
    if known is not None and alive(known):
        return Launcher(known)
    for mark in marked(context.run.id, since=context.life.state.created):  # died before it could write the mark down
        try:
            if psutil.Process(mark.pid).cmdline() == list(context.plan.argv):
                return Launcher(mark)
        except psutil.NoSuchProcess:
            continue
    return None


class Watch:
    """What the events tell, moved into the run's state."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.follower = Follower(context.run.events)
        self.alarm = Alarm(context)
        self.sampler = Sampler(context)
        self.training = False
        self.end: EndEvent | None = None
        self.errors: list[ErrorEvent] = []
        self.signalled: float | None = None
        """When the launcher was sent SIGTERM (monotonic seconds)."""
        self.oom_kills_before = oom_kills()
        self._saving: set[str] = set()
        self._stop_since: float | None = None

    def take(self, events: Iterable[Event]) -> None:
        """Learn from events; the state moves with `reconcile`."""
        life = self.context.life
        for event in events:
            if event.rank < 0:
                continue
            self.alarm.hear(event)
            match event:
                case PhaseEvent() if not self.training:
                    life.note(phase_done=event.done)
                case TrainEvent():
                    self.training = True
                    life.note(steps=event.steps)
                case StepEvent():
                    life.note(step=event.step, loss=event.loss)
                case SaveEvent(done=False):
                    self._saving.add(event.path)
                case SaveEvent():
                    self._saving.discard(event.path)
                case ErrorEvent():
                    self.errors.append(event)
                case EndEvent():
                    self.end = event

    def reconcile(self) -> None:
        """Move the state to where the events are: starting → running ⇄ saving."""
        life = self.context.life
        if life.state.state == "starting" and self.training:
            life.go("running", phase=None, phase_done=None)
        if life.state.state == "running" and self._saving:
            life.go("saving")
        elif life.state.state == "saving" and not self._saving:
            life.go("running")

    def follow(self, launcher: Launcher) -> None:
        """Watch until the launcher has ended and everything that it said is read. Raises `Failed` on a full disk."""
        context = self.context
        while True:
            running = launcher.running()  # before the look at the events, so that the last ones are not missed
            self.take(self.follower.read())
            self.reconcile()
            if not running:
                break
            self.alarm.look()
            self._stop_ladder(launcher)
            context.life.flush()
            context.check_disk()
            self.sampler.look()
            time.sleep(context.timing.tick)
        self.alarm.close()
        context.life.note(exit_code=launcher.exit_code)
        self.sweep(launcher)

    def sweep(self, launcher: Launcher) -> None:
        """Nothing of the run outlives its launcher for long: torch's workers have process groups of their own."""
        run_id, since = self.context.run.id, launcher.mark.started
        until = time.monotonic() + self.context.timing.linger
        while marked(run_id, since=since) and time.monotonic() < until:
            time.sleep(self.context.timing.tick)
        left = kill_marked(run_id, since=since)
        if left:
            log.error("still there after SIGKILL: %s", [mark.pid for mark in left])
        self.take(self.follower.read())

    def end_all(self, launcher: Launcher | None) -> None:
        """End everything at once: the run is given up."""
        self.alarm.close()
        kill_marked(self.context.run.id, since=launcher.mark.started if launcher is not None else 0.0)
        if launcher is not None and launcher.process is not None:
            launcher.process.wait()

    def _stop_ladder(self, launcher: Launcher) -> None:
        context = self.context
        request = context.stop_request()
        if request is None:
            return
        now = time.monotonic()
        wish = "discard" if request.discard else "save"
        if self._stop_since is None:
            self._stop_since = now
            context.life.go("stopping", stop=wish)
        context.life.note(stop=wish)
        limit = 0.0 if not self.training else context.timing.saving if self._saving else context.timing.leave
        if self.signalled is None and now - self._stop_since >= limit:
            log.warning("SIGTERM to the launcher, %.0f s after the stop was asked for", now - self._stop_since)
            self.signalled = now
            send(launcher.mark, signal.SIGTERM)
        elif self.signalled is not None and now - self.signalled >= context.timing.kill:
            log.warning("SIGKILL to everything of the run, %.0f s after SIGTERM", now - self.signalled)
            kill_marked(context.run.id, since=launcher.mark.started)
