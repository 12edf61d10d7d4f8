"""A run's own events count before its logs; the logs explain."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.told import NOW, found, raised, report
from zeroboard.contract.events import ErrorEvent, StepEvent
from zeroboard.contract.problems import Problem
from zeroboard.contract.state import RunState, State
from zeroboard.diagnosis.facts import RunFacts, course_of


def state(which: State = "failed", problem: Problem | None = None) -> RunState:
    return RunState.model_validate(
        {
            "id": "r", "state": which, "created": 1.0, "changed": 2.0, "exit_code": 1, "problem": problem, "model": "m",
            "stage": "2", "offload": "none", "method": "lora", "ranks": 2, "devices": ("cpu",), "plan_hash": "y",
        }
    )  # fmt: skip


def error(rank: int, when: float, what: str, traceback: str | None = None) -> ErrorEvent:
    kind, _, message = what.partition(": ")
    return ErrorEvent(seq=1, time=when, rank=rank, type=kind, message=message, traceback=traceback or raised(what))


def steps(*losses: float | None) -> tuple[StepEvent, ...]:
    return tuple(
        StepEvent(seq=n, time=float(n), rank=0, step=n, epoch=0.1, loss=loss, learning_rate=1e-4, step_time=1.0)
        for n, loss in enumerate(losses, 1)
    )


CLOSED = "RuntimeError: Connection closed by peer"


def test_the_first_event_that_is_no_echo_is_the_cause_with_its_line_in_the_log(tmp_path: Path) -> None:
    facts = RunFacts(
        state=state(), errors=(error(0, 3.0, CLOSED), error(1, 5.0, "ValueError: b"), error(2, 4.0, "KeyError: 'a'"))
    )
    logs = {"logs/rank_2.log": "on\n" + raised("KeyError: 'a'"), "logs/rank_1.log": raised("ValueError: b")}
    made = found(tmp_path, logs, facts=facts)
    (finding,) = made.findings
    assert (made.root, finding.rank, finding.echoes) == ("python-exception", 2, 2)
    assert finding.evidence is not None
    assert (finding.evidence.file, finding.evidence.line) == ("logs/rank_2.log", 5)


def test_an_event_without_its_log_is_its_own_evidence(tmp_path: Path) -> None:
    event = error(
        1, 4.0, "OutOfMemoryError: CUDA out of memory", traceback=raised("torch.OutOfMemoryError: CUDA out of memory")
    )
    made = found(tmp_path, {}, facts=RunFacts(state=state(), errors=(event,)))
    assert (made.root, made.findings[0].rank) == ("cuda-oom", 1)
    evidence = made.findings[0].evidence
    assert evidence is not None and (evidence.file, evidence.line) == ("events.jsonl", None)


def test_a_traceback_that_says_nothing_leaves_type_and_message(tmp_path: Path) -> None:
    event = error(1, 4.0, "OSError: [Errno 28] No space left on device", traceback="…")
    assert found(tmp_path, {}, facts=RunFacts(state=state(), errors=(event,))).root == "disk-full"


def test_a_killed_rank_is_found_in_the_launcher_s_report(tmp_path: Path) -> None:
    problem = Problem(code="killed-by-signal", says="run.failed.killed", params={"signal": "SIGKILL", "rank": 1})
    facts = RunFacts(state=state(problem=problem), errors=(error(0, 3.0, CLOSED),))
    made = found(tmp_path, {"logs/launcher.log": report(1, -9)}, facts=facts)
    assert (made.root, made.findings[0].rank) == ("killed-by-signal", 1)


@pytest.mark.parametrize(
    "problem",
    [
        Problem(code="host-oom", says="run.failed.oom", params={"signal": "SIGKILL", "rank": 1}),
        Problem(code="verify-failed", says="run.failed.verify", params={"check": "finite", "path": "/m"}),
        Problem(code="plan-changed", says="run.failed.changed", params={"file": "spec.yaml"}),
    ],
)
def test_what_the_supervisor_measured_itself_stands(tmp_path: Path, problem: Problem) -> None:
    facts = RunFacts(state=state(problem=problem), errors=(error(0, 3.0, "RuntimeError: odd"),))
    made = found(tmp_path, {"logs/rank_0.log": raised("RuntimeError: odd")}, facts=facts)
    assert (made.root, made.findings[0].says) == (problem.code, problem.says)


def test_where_no_log_speaks_the_problem_does(tmp_path: Path) -> None:
    problem = Problem(code="killed-by-signal", says="run.failed.signal", params={"signal": "SIGSEGV", "rank": "?"})
    made = found(tmp_path, {}, facts=RunFacts(state=state(problem=problem)))
    assert (made.root, made.findings[0].rank, made.findings[0].says) == ("killed-by-signal", None, "run.failed.signal")


def test_losses_come_from_the_events(tmp_path: Path) -> None:
    made = found(tmp_path, {}, facts=RunFacts(state=state("finished"), steps=steps(2.0, None, None)))
    assert made.root == "loss-nan" and made.findings[0].params["count"] == 2
    assert course_of(RunFacts(state=state(), steps=steps(2.0, 0.0, 0.0, 0.0))).zero is not None


def test_a_finished_run_and_one_that_was_stopped_have_no_fault(tmp_path: Path) -> None:
    logs = {"logs/rank_0.log": raised("ValueError: handled")}
    assert found(tmp_path, logs, facts=RunFacts(state=state("finished"), steps=steps(2.0))).root is None
    made = found(tmp_path, logs, facts=RunFacts(state=state("stopped")))
    assert (made.root, made.findings[0].severity) == ("stopped-by-user", "info")


def test_a_run_that_says_nothing_any_more_stands_still(tmp_path: Path) -> None:
    quiet = RunFacts(state=state("running"), steps=steps(2.0), last_event=NOW - 7200)
    made = found(tmp_path, {}, facts=quiet)
    assert (made.root, made.findings[0].params["minutes"]) == ("stalled", 120)
    assert (
        found(tmp_path, {}, facts=RunFacts(state=state("running"), steps=steps(2.0), last_event=NOW - 60)).root is None
    )
