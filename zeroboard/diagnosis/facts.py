"""What a run's own files say beside its logs: exceptions as events, losses, how it ended. They count before any log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zeroboard.contract.events import ErrorEvent, StepEvent
from zeroboard.contract.findings import Finding
from zeroboard.contract.problems import Problem
from zeroboard.contract.readings import Reading
from zeroboard.contract.spec import RunSpec
from zeroboard.contract.state import RunState
from zeroboard.diagnosis.course import Course
from zeroboard.diagnosis.matching import of_exception
from zeroboard.diagnosis.reading import Line
from zeroboard.diagnosis.sightings import Sighting
from zeroboard.diagnosis.tracebacks import Raised, Stream

EVENTS = "events.jsonl"

DECIDED = ("host-oom", "disk-full", "no-training-happened")
"""Codes of problems that the supervisor measured itself (kills that the control group counted, the disk); others it
only read from an exit code, which the logs explain."""
EXPLAINED = (
    "run.failed.exception",
    "run.failed.launcher",
    "run.failed.launcher-signal",
    "run.failed.killed",
    "run.failed.signal",
    "run.failed.verb",
)
"""Sentences of problems that logs may tell better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run, as far as it helps to explain it."""

    state: RunState
    errors: tuple[ErrorEvent, ...] = ()
    steps: tuple[StepEvent, ...] = ()
    last_event: float | None = None
    """When something was last heard of it, in seconds since the epoch."""
    spec: RunSpec | None = None
    """What was asked, so that remedies can be values."""
    gpus: tuple[str, ...] = ()
    """UUIDs in the order of the ranks."""
    noticed: tuple[Finding, ...] = ()
    """What was noticed while it ran, whether or not it was over before the end; the last words of each."""
    readings: tuple[Reading, ...] = ()
    """The last samples of the machine, oldest first."""

    @property
    def decided(self) -> Problem | None:
        """The problem of a failed run that no log explains better."""
        problem = self.state.problem
        if problem is None or problem.severity != "error" or self.state.state not in ("failed", "lost"):
            return None
        logs_explain = problem.says in EXPLAINED and problem.code not in DECIDED
        return None if logs_explain else problem


def of_events(facts: RunFacts, seen: Sequence[Sighting]) -> list[Sighting]:
    """The exceptions of the events, each with its line in the log of its rank where that can be found."""
    found = []
    for order, event in enumerate(sorted(facts.errors, key=lambda e: e.time)):
        line = Line(EVENTS, 0, event.rank, f"{event.type}: {event.message}".split("\n", 1)[0], False)
        raised = _traceback(event, line)
        judged = [(r, *of_exception(r.text, r.frames)) for r in raised]
        known = [j for j in judged if j[1].role == "cause" and j[1].raised] or judged[:1]
        which, rule, evidence = known[0]
        text = which.text if raised else f"{event.type}: {event.message}"
        logged = next((s for s in seen if s.raised and s.rank == event.rank and s.text == text), None)
        found.append(
            Sighting(
                rule=rule, evidence=evidence, line=logged.line if logged is not None else line, order=order,
                rank=event.rank, text=text, time=event.time, exact=True, raised=True, chain=-1 - order,
            )
        )  # fmt: skip
    return found


def course_of(facts: RunFacts) -> Course:
    """The losses of the events."""
    course = Course()
    for step in facts.steps:
        value = float("nan") if step.loss is None else step.loss
        line = Line(EVENTS, 0, 0, f"step {step.step}: loss {'nan' if step.loss is None else step.loss}", False)
        course.loss(
            line,
            value,
            good_norm=None if step.grad_norm is None and step.loss is not None else step.grad_norm is not None,
        )
    return course


def _traceback(event: ErrorEvent, line: Line) -> list[Raised]:
    """The chain of exceptions in an event's traceback; at least the exception itself."""
    stream, chain = Stream(), []
    for order, text in enumerate(event.traceback.split("\n")):
        raised, _ = stream.feed(Line(EVENTS, 0, event.rank, text, False), order)
        if raised is not None:
            chain.append(raised)
    if chain:
        return chain
    return [Raised(type=event.type, line=line, order=0, chain=0, message=event.message.split("\n"))]
