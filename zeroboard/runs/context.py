"""What the parts of a supervisor share: the run, its plan, its life, and how long things may take."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from zeroboard.contract.base import Record
from zeroboard.contract.plan import Plan
from zeroboard.contract.problems import Problem, errors
from zeroboard.contract.requests import Answer, Progress, StopRequest, read_stop
from zeroboard.contract.spec import RunSpec
from zeroboard.contract.state import Phase
from zeroboard.diagnosis.stall import Patience
from zeroboard.errors import EngineFailed
from zeroboard.paths import Paths, RunPaths
from zeroboard.planning.specs import read_spec
from zeroboard.runs import verbs
from zeroboard.runs.failure import QUOTED
from zeroboard.runs.launcher import Popen
from zeroboard.runs.life import Life
from zeroboard.runs.processes import MARK

log = logging.getLogger(__name__)


class Failed(Exception):
    """The run cannot go on; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.code)


class Stopped(Exception):
    """A stop was asked for while there was nothing to save yet."""


class Removed(Exception):
    """The run's folder was removed while it ran: nobody wants it, and nothing can be said of it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds."""

    tick: float = 0.2
    leave: float = 300.0
    """From a stop to SIGTERM: a step and a checkpoint have to fit in."""
    saving: float = 1800.0
    """The same while a checkpoint is being written."""
    kill: float = 35.0
    """From SIGTERM to SIGKILL; torchrun itself gives its workers 30."""
    linger: float = 10.0
    """That processes may outlive their launcher."""
    disk: float = 60.0
    """That nothing can be written before the run is given up."""
    settle: float = 3600.0
    """That the last word is tried to be written."""
    sample: float = 5.0
    """Between two readings of the machine."""
    look: float = 2.0
    """Between two looks at whether all is well with the training."""
    patience: Patience = field(default_factory=Patience)
    """That it may stand still."""


@dataclass(slots=True, kw_only=True)
class Context:
    """One supervisor's work."""

    run: RunPaths
    plan: Plan
    life: Life
    popen: Popen
    timing: Timing = field(default_factory=Timing)

    @property
    def paths(self) -> Paths:
        return Paths(self.run.folder.parent.parent)

    def spec(self) -> RunSpec:
        """What was asked. Raises `Failed` where the run's file is no spec any more."""
        spec, problems = read_spec(self.run.spec)
        if spec is None:
            raise Failed(problems[0])
        return spec

    def environment(self, inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The environment of the run's children: what is inherited, less what is scrubbed, and the plan's values."""
        kept = {key: value for key, value in inherited.items() if key not in self.plan.scrubbed}
        return {**kept, **self.plan.env, MARK: self.run.id}

    def stop_request(self) -> StopRequest | None:
        """The stop that was asked for, if one was."""
        return read_stop(self.run)

    def new_stop(self) -> StopRequest | None:
        """A request to stop that the state does not know yet: the first, or one to discard after one to save."""
        request, known = self.stop_request(), self.life.state.stop
        if request is None or known == "discard" or (known == "save" and not request.discard):
            return None
        return request

    def check_disk(self) -> None:
        """Raises `Failed` where nothing could be written for too long, `Removed` where the run's folder is gone."""
        if self.life.gone:
            raise Removed(str(self.run.folder))
        since = self.life.failing_since
        if since is not None and time.monotonic() - since > self.timing.disk:
            raise Failed(disk_full(self.run))

    def verb(
        self,
        verb: verbs.Verb,
        request: Record,
        phase: Phase | Literal["verify"],
    ) -> Answer:
        """Run an engine verb with its progress shown; raises `Stopped`, `Failed`."""

        def progress(said: Progress) -> None:
            if phase == "verify":
                shown = "load" if said.phase == "load" else "verify"
                self.life.say_phase(shown, said.done, says=said.says, params=said.params)
            else:
                self.life.phase(phase, said.done, says=said.says, params=said.params)

        def cancelled() -> bool:
            self.life.flush()
            self.check_disk()
            return self.new_stop() is not None

        try:
            answer = verbs.call(
                verb,
                request,
                on_progress=progress,
                env=self.environment(),
                popen=self.popen,
                log_to=self.run.logs / "verbs.log",
                cancelled=cancelled,
            )
        except verbs.Cancelled as error:
            raise Stopped from error
        except EngineFailed as error:
            raise Failed(
                Problem(
                    code="python-exception",
                    says="run.failed.verb",
                    params={
                        "verb": verb,
                        "code": str(error.params.get("code")),
                        "message": str(error.params.get("tail", ""))[-QUOTED:],
                        "file": "verbs.log",
                    },
                )
            ) from error
        wrong = errors(answer.problems)
        if wrong:
            raise Failed(wrong[0])
        return answer


def disk_full(run: RunPaths) -> Problem:
    """The disk does not take what is written."""
    return Problem(code="disk-full", says="run.failed.disk-full", params={"path": str(run.folder)})
