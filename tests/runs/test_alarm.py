"""The supervisor's eye on a live run: what it notices, says, and takes back."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.diagnosis.run_of import gpu, reading
from tests.engine.launch import HOST, logs
from tests.fakes import QUICK, make_run, popen
from zeroboard.contract.beats import read_beats
from zeroboard.contract.events import FindingEvent, RankEvent, StepEvent
from zeroboard.contract.findings import Finding
from zeroboard.contract.readings import Reading
from zeroboard.contract.requests import TokeniseRequest
from zeroboard.contract.spec import RunSpec
from zeroboard.data.judge import judge
from zeroboard.diagnosis.stall import Patience
from zeroboard.files import append_line
from zeroboard.paths import Paths, RunPaths
from zeroboard.planning.models import read_model
from zeroboard.planning.planner import make_plan
from zeroboard.runs import registry
from zeroboard.runs.alarm import Alarm
from zeroboard.runs.context import Context
from zeroboard.runs.follow import Follower
from zeroboard.runs.life import Life
from zeroboard.runs.snapshot import SnapshotReader
from zeroboard.runs.supervisor import supervise

HURRY = replace(
    QUICK, linger=5.0, look=0.2, patience=Patience(least=1.5, first=60.0, busy=60.0, silent=60.0, steps=3.0)
)


HOT = reading(0.0, gpu(0, throttle=("thermal-hardware",)))


def alarm_of(run: RunPaths, *, life: Life | None = None) -> Alarm:
    timing = replace(QUICK, look=0.0)
    life = life or Life(run, registry.read_state(run))
    return Alarm(Context(run=run, plan=registry.read_plan(run), life=life, popen=popen, timing=timing))


def tell(run: RunPaths, *times: float, of: Reading = HOT) -> None:
    for when in times:
        append_line(run.readings, of.model_copy(update={"time": when}).model_dump_json())


def test_only_what_changes_is_said_and_all_is_over_at_the_end(paths: Paths) -> None:
    run = make_run(paths)
    life = Life(run, registry.read_state(run))
    alarm = alarm_of(run, life=life)
    tell(run, 0.0)
    alarm.look()
    tell(run, 29.0)
    alarm.look()
    assert life.flush(force=True) and noticed(run) == []
    tell(run, 31.0)
    for _ in range(3):
        alarm.look()
    alarm.close()
    alarm.close()
    assert life.flush(force=True)
    said = noticed(run)
    assert [(event.finding.code, event.cleared, event.rank) for event in said] == [
        ("gpu-throttled", False, -1), ("gpu-throttled", True, -1),
    ]  # fmt: skip
    assert SnapshotReader(run).read().findings == ()


def test_what_was_measured_before_the_supervisor_came_is_over(paths: Paths) -> None:
    run = make_run(paths)
    tell(run, 0.0, 31.0)
    alarm = alarm_of(run)
    alarm.look()
    assert SnapshotReader(run).read().findings == ()


def test_what_a_dead_supervisor_noticed_is_taken_back_by_the_next(paths: Paths) -> None:
    run = make_run(paths)
    left = Finding(code="stalled", rank=1, says="finding.stalled")
    event = FindingEvent(seq=1, time=1.0, rank=-1, finding=left)
    append_line(run.events, event.model_dump_json())
    life = Life(run, registry.read_state(run))
    alarm = alarm_of(run, life=life)
    alarm.inherit(Follower(run.events).read())
    alarm.look()
    assert life.flush(force=True)
    assert [event.cleared for event in noticed(run)] == [False, True]


def test_steps_that_16_bit_skips_are_read_off_the_log_of_rank_0(paths: Paths) -> None:
    run = make_run(paths)
    plan = registry.read_plan(run)
    assert plan.resolved is not None
    plan = plan.model_copy(update={"resolved": plan.resolved.model_copy(update={"dtype": "fp16"})})
    life = Life(run, registry.read_state(run))
    timing = replace(QUICK, look=0.0)
    alarm = Alarm(Context(run=run, plan=plan, life=life, popen=popen, timing=timing))
    run.logs.mkdir(exist_ok=True)
    append_line(run.rank_log(0), "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 2, reducing to 1")
    alarm.look()
    assert life.flush(force=True)
    assert [event.finding.code for event in noticed(run)] == ["overflow-loop"]


def test_what_cannot_be_read_ends_no_training(paths: Paths, caplog: pytest.LogCaptureFixture) -> None:
    run = make_run(paths)
    alarm = alarm_of(run)
    run.readings.mkdir()
    (run.readings / "x").touch()
    alarm.look()
    alarm.look()
    assert [record.getMessage()[:26] for record in caplog.records] == ["cannot look after the trai"]
    (run.readings / "x").unlink()
    run.readings.rmdir()
    alarm.look()
    run.readings.mkdir()
    alarm.look()
    assert len(caplog.records) == 2


def real_run(paths: Paths, model: Path, data: Path, **train: object) -> RunPaths:
    """A planned run of two real ranks on the tiny model."""
    from zeroboard.engine.tokens import tokenise

    spec = RunSpec.model_validate(
        {
            "model": {"path": str(model)},
            "data": {"path": str(data), "max_length": 64},
            "train": {"micro_batch": 1, "accumulation": 1, "precision": "fp32", **train},
            "devices": {"count": 2},
        }
    )
    facts, problems = read_model(str(model), paths)
    assert facts is not None, problems
    judged = judge(data)
    plan = registry.create(
        paths,
        spec,
        lambda run_id: make_plan(spec, host=HOST, paths=paths, model=facts, data=judged, tokens=None, run_id=run_id),
    )
    assert plan.resolved is not None and plan.run_id is not None, plan.problems
    target = str(paths.tokens / plan.resolved.tokens_key)
    tokenise(TokeniseRequest(data_path=str(data), model_path=str(model), max_length=64, target=target))
    return paths.run(plan.run_id)


def soon(run: RunPaths, test: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < until, logs(run)
        time.sleep(0.05)


def noticed(run: RunPaths) -> list[FindingEvent]:
    return [event for event in Follower(run.events).read() if isinstance(event, FindingEvent)]


def test_a_rank_that_is_stopped_is_named_with_the_stack_of_the_one_that_waits(
    paths: Paths, tiny_model_folder: Path, tiny_data_file: Path
) -> None:
    run = real_run(paths, tiny_model_folder, tiny_data_file, max_steps=80)
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(supervise(run, popen=popen, timing=HURRY)), daemon=True)
    thread.start()
    follower, events = Follower(run.events), []

    def steps() -> int:
        events.extend(follower.read())
        return sum(isinstance(event, StepEvent) for event in events)

    soon(run, lambda: steps() >= 3 and len([b for b in read_beats(run) if b.step > 0]) == 2, 60)
    pid = next(event.pid for event in events if isinstance(event, RankEvent) and event.rank == 1)
    os.kill(pid, signal.SIGSTOP)
    try:

        def named() -> list[Finding]:
            return [f.finding for f in noticed(run) if f.finding.rank == 1 and f.finding.evidence is not None]

        soon(run, lambda: bool(named()), 15)
        finding = named()[-1]
        assert (finding.code, finding.severity) == ("stalled", "warning")
        assert finding.says == "finding.stalled.behind" and finding.remedies
        assert finding.evidence is not None and finding.evidence.file == "logs/rank_0.log"
        quoted = run.rank_log(0).read_bytes().split(b"\n")[(finding.evidence.line or 0) - 1].decode()
        assert quoted.strip() == finding.evidence.text and quoted.startswith("  File ")
        assert Path(f"/proc/{pid}").exists()
    finally:
        os.kill(pid, signal.SIGCONT)
    thread.join(60)
    assert codes == [0], logs(run)
    state = registry.read_state(run)
    assert (state.state, state.step) == ("finished", 80), state.problem
    assert noticed(run)[-1].cleared and {event.finding.code for event in noticed(run)} == {"stalled"}
    assert "most recent call first" in run.rank_log(1).read_text()  # answered as soon as it went on
