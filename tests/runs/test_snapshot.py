"""The read model: only what is new is read, and nothing half."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.fakes import make_run
from tests.ui.scripted import myself
from zeroboard.contract.events import ErrorEvent, EvalEvent, FindingEvent, MemoryEvent, StepEvent, TrainEvent
from zeroboard.contract.findings import Finding
from zeroboard.contract.plan import TokenFacts
from zeroboard.contract.readings import GpuReading, Reading
from zeroboard.contract.state import RunState
from zeroboard.errors import BrokenFile
from zeroboard.files import append_line, to_json, write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.planning.specs import read_spec, spec_yaml
from zeroboard.runs.follow import each_step
from zeroboard.runs.locks import run_lock
from zeroboard.runs.pace import Ahead
from zeroboard.runs.registry import UNREADABLE, list_runs, read_plan, read_state
from zeroboard.runs.series import MOST
from zeroboard.runs.snapshot import SnapshotReader, ahead


def step(number: int, seconds: float = 2.0) -> StepEvent:
    return StepEvent(
        seq=number, time=time.time(), rank=0, step=number, epoch=0.1, loss=1.0, learning_rate=1e-3, step_time=seconds
    )


def put(run: RunPaths, before: RunState, **changes: object) -> None:
    write_atomic(run.state, to_json(before.model_copy(update=changes).model_dump(mode="json")))


def test_where_nothing_changed_the_same_object_comes_back(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    reader = SnapshotReader(run)
    first = reader.read()
    assert reader.read() is first and first.version == 1 and first.plan is not None
    append_line(run.events, step(1).model_dump_json())
    second = reader.read()
    assert second.version == 2 and second.last is not None and reader.read() is second


def test_a_half_written_line_waits_and_a_foreign_one_is_counted(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    reader = SnapshotReader(run)
    line = step(1).model_dump_json()
    with run.events.open("a") as stream:
        stream.write('{"kind": "of a later version"}\n' + line[:20])
    assert reader.read().last is None and reader.read().skipped == 1
    with run.events.open("a") as stream:
        stream.write(line[20:] + "\n")
    assert [step for step, _ in reader.read().series.loss] == [1]


def test_a_file_that_was_replaced_is_read_from_its_start(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    reader = SnapshotReader(run)
    for number in range(1, 5):
        append_line(run.events, step(number).model_dump_json())
    assert len(reader.read().series.loss) == 4
    write_atomic(run.events, step(9).model_dump_json() + "\n")
    assert [step for step, _ in reader.read().series.loss] == [9]


def test_errors_stand_in_the_order_of_their_time(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    for rank, when in ((0, 5.0), (1, 3.0)):
        event = ErrorEvent(seq=1, time=when, rank=rank, type="E", message="m", traceback="t")
        append_line(run.events, event.model_dump_json())
    assert [e.rank for e in SnapshotReader(run).read().errors] == [1, 0]


def test_a_run_without_a_living_supervisor_is_seen_as_lost(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    put(run, read_state(run), state="running")
    reader = SnapshotReader(run)
    assert reader.read().state.state == "lost"
    lock = run_lock(run.lock)
    assert lock.take(run.id)
    try:
        assert reader.read().state.state == "running"
    finally:
        lock.release()
    assert reader.read().state.state == "lost" and read_state(run).state == "running"


def test_a_look_costs_the_same_after_many_events_and_holds_no_more(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    train = TrainEvent(seq=1, time=1.0, rank=0, steps=9, epochs=1.0, rows=9, trainable_parameters=1, parameters=9)
    lines = (step(number).model_dump_json() for number in range(1, 20_001))
    write_atomic(run.events, "\n".join((train.model_dump_json(), *lines)) + "\n")
    reader = SnapshotReader(run)
    shown = reader.read()
    assert shown.last is not None and shown.last.step == 20_000
    assert len(shown.series.loss) <= MOST + 2 and shown.series.loss[-1][0] == 20_000
    begin = time.process_time()
    for _ in range(100):
        reader.read()
    assert (time.process_time() - begin) / 100 < 0.005
    assert [told.step for told in each_step(run)] == list(range(1, 20_001))


def test_what_did_not_change_is_the_same_object(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    reader = SnapshotReader(run)
    append_line(run.events, step(1).model_dump_json())
    first = reader.read()
    append_line(run.readings, Reading(time=1.0, cpu_percent=40.0).model_dump_json())
    second = reader.read()
    assert second.version == first.version + 1 and second.series is first.series
    assert [reading.cpu_percent for reading in second.history] == [40.0]
    append_line(run.events, step(2).model_dump_json())
    third = reader.read()
    assert third.history is second.history and third.series is not second.series


def test_peaks_evaluations_and_findings_are_told(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    reader = SnapshotReader(run)
    for rank, peak in ((1, 5), (0, 7), (1, 9), (1, 8)):
        append_line(run.events, MemoryEvent(seq=1, time=1.0, rank=rank, step=1, peak=peak).model_dump_json())
    held = EvalEvent(seq=2, time=2.0, rank=0, step=4, epoch=0.5, loss=1.5, rows=3, seconds=1.0)
    append_line(run.events, held.model_dump_json())
    stalled, zero = Finding(code="stalled", rank=1, says="a"), Finding(code="loss-zero", says="b")
    for finding, cleared in ((stalled, False), (zero, False), (stalled, True)):
        event = FindingEvent(seq=3, time=3.0, rank=-1, finding=finding, cleared=cleared)
        append_line(run.events, event.model_dump_json())
    shown = reader.read()
    assert shown.peaks == {0: 7, 1: 9} and shown.evaluation == held
    assert shown.series.evaluation == ((4, 1.5),) and shown.findings == (zero,)


def test_the_epoch_and_the_time_that_has_gone_by(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    reader = SnapshotReader(run)
    assert (reader.read().epoch, reader.read().elapsed) == (None, None)
    began = read_state(run).changed - 100.0
    put(run, read_state(run), state="running", started=began)
    append_line(run.events, step(1).model_copy(update={"time": began + 160.0}).model_dump_json())
    assert reader.read().epoch == 0.1 and reader.read().elapsed == pytest.approx(160.0)
    put(run, read_state(run), state="finished", ended=began + 200.0)
    assert reader.read().elapsed == pytest.approx(200.0) and reader.read().eta_s is None


def test_the_time_left_counts_what_is_planned_beside_the_steps(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    put(run, read_state(run), state="running", steps=100, supervisor=myself())
    reader = SnapshotReader(run)
    assert reader.read().eta_s is None
    for number in range(1, 26):
        append_line(run.events, step(number).model_dump_json())
    assert reader.read().eta_s == pytest.approx(75 * 2.0)
    held = EvalEvent(seq=2, time=2.0, rank=0, step=25, epoch=0.5, loss=1.5, rows=3, seconds=7.0)
    append_line(run.events, held.model_dump_json())
    assert reader.read().eta_s == pytest.approx(75 * 2.0 + 3 * 7.0)
    put(run, read_state(run), state="running", steps=None, supervisor=myself())
    assert reader.read().eta_s is None


def test_a_plan_tells_how_often_it_evaluates_and_saves(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    plan, spec = read_plan(run), read_spec(run.spec)[0]
    assert ahead(40, plan, None) == ahead(40, None, spec) == Ahead(steps=40)
    assert plan.tokens is None and ahead(40, plan, spec) == Ahead(steps=40, samples_a_step=4)
    tokens = TokenFacts(
        key="abc", rows=9, evaluation=3, tokens=80, learned=30, longest=10, truncated=0, end_token_lost=0,
        without_trainable=0, template="model",
    )  # fmt: skip
    known = plan.model_copy(update={"tokens": tokens})
    assert ahead(40, known, spec) == Ahead(steps=40, samples_a_step=4, evaluation_rows=3, evaluate_every=3)
    train = spec.train.model_copy(update={"evaluate_every": 7, "save_every": 5})
    asked = ahead(40, known, spec.model_copy(update={"train": train}))
    assert (asked.evaluate_every, asked.save_every) == (7, 5)


def test_costs_are_told_where_a_price_was_and_the_run_holds_gpus(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    assert (SnapshotReader(run).read().cost, SnapshotReader(run).read().cost_expected) == (None, None)
    spec = read_spec(run.spec)[0]
    priced = spec.model_copy(update={"devices": spec.devices.model_copy(update={"price_per_hour": 1.5})})
    write_atomic(run.spec, spec_yaml(priced))
    now = time.time()
    put(run, read_state(run), state="running", steps=100, started=now - 3600, changed=now, supervisor=myself())
    append_line(run.events, step(10, 20.0).model_dump_json())
    assert SnapshotReader(run).read().cost is None  # it trains on the CPU
    plan = read_plan(run)
    assert plan.resolved is not None
    on_gpus = plan.model_copy(update={"resolved": plan.resolved.model_copy(update={"device": "cuda"})})
    write_atomic(run.plan, on_gpus.model_dump_json())
    shown = SnapshotReader(run).read()
    assert shown.cost == pytest.approx(2 * 1.5, rel=1e-3)
    assert shown.cost_expected == pytest.approx(2 * 1.5 * 1.5, rel=1e-3)
    put(run, read_state(run), state="finished", ended=now - 1800)
    ended = SnapshotReader(run).read()
    assert ended.cost == ended.cost_expected == pytest.approx(1.5, rel=1e-3)


def test_the_utilisation_needs_the_name_of_the_cards(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    plan = read_plan(run)
    assert plan.resolved is not None
    on_gpus = plan.model_copy(update={"resolved": plan.resolved.model_copy(update={"device": "cuda", "dtype": "bf16"})})
    write_atomic(run.plan, on_gpus.model_dump_json())
    train = TrainEvent(seq=1, time=1.0, rank=0, steps=9, epochs=1.0, rows=9, trainable_parameters=10, parameters=10)
    append_line(run.events, train.model_dump_json())
    append_line(run.events, step(1).model_copy(update={"tokens_per_s": 1e9}).model_dump_json())
    reader = SnapshotReader(run)
    assert reader.read().series.mfu == ()
    gpus = tuple(GpuReading(uuid=f"GPU-{n}", index=n, name="NVIDIA H200") for n in range(2))
    append_line(run.readings, Reading(time=1.0, gpus=gpus).model_dump_json())
    assert reader.read().series.mfu == ((1, pytest.approx(60e9 / (2 * 989.4e12))),)
    slices = tuple(gpu.model_copy(update={"uuid": f"MIG-{gpu.index}"}) for gpu in gpus)
    append_line(run.readings, Reading(time=2.0, gpus=slices).model_dump_json())
    assert reader.read().series.mfu == ()


@pytest.mark.timeout(30)
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    run = make_run(paths)
    for path in (run.events, run.readings, run.verify_report, run.beats / "rank_0.json", run.logs / "rank_0.log"):
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    seen = SnapshotReader(run).read()
    assert (seen.report, seen.beats, seen.last, seen.history) == (None, (), None, ())
    run.plan.unlink()
    os.mkfifo(run.plan)
    with pytest.raises(BrokenFile):
        read_plan(run)
    run.state.unlink()
    os.mkfifo(run.state)
    (listed,) = list_runs(paths)
    assert listed.problem is not None and listed.problem.code == UNREADABLE
