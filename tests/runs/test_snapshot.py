"""The read model: only what is new is read, and nothing half."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.fakes import make_run
from zeroboard.contract.events import ErrorEvent, StepEvent, TrainEvent
from zeroboard.contract.state import RunState
from zeroboard.files import append_line, to_json, write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs.locks import run_lock
from zeroboard.runs.registry import read_state
from zeroboard.runs.snapshot import SnapshotReader, eta


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
    assert second.version == 2 and len(second.steps) == 1 and reader.read() is second


def test_a_half_written_line_waits_and_a_foreign_one_is_counted(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    reader = SnapshotReader(run)
    line = step(1).model_dump_json()
    with run.events.open("a") as stream:
        stream.write('{"kind": "of a later version"}\n' + line[:20])
    assert reader.read().steps == () and reader.read().skipped == 1
    with run.events.open("a") as stream:
        stream.write(line[20:] + "\n")
    assert [s.step for s in reader.read().steps] == [1]


def test_a_file_that_was_replaced_is_read_from_its_start(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    reader = SnapshotReader(run)
    for number in range(1, 5):
        append_line(run.events, step(number).model_dump_json())
    assert len(reader.read().steps) == 4
    write_atomic(run.events, step(9).model_dump_json() + "\n")
    assert [s.step for s in reader.read().steps] == [9]


def test_errors_stand_in_the_order_of_their_time(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    for rank, when in ((0, 5.0), (1, 3.0)):
        event = ErrorEvent(seq=1, time=when, rank=rank, type="E", message="m", traceback="t")
        append_line(run.events, event.model_dump_json())
    assert [e.rank for e in SnapshotReader(run).read().errors] == [1, 0]


def test_the_time_left_is_told_from_the_median_of_the_last_steps(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    running = read_state(run).model_copy(update={"state": "running", "steps": 100})
    steps = [step(n, 50.0) for n in range(1, 6)] + [step(n, 2.0) for n in range(6, 25)] + [step(25, 90.0)]
    assert eta(running, steps) == pytest.approx(75 * 2.0)
    assert eta(running.model_copy(update={"steps": None}), steps) is None
    assert eta(running.model_copy(update={"state": "finished"}), steps) is None
    assert eta(running, []) is None


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


def test_a_look_costs_the_same_after_many_events(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    train = TrainEvent(seq=1, time=1.0, rank=0, steps=9, epochs=1.0, rows=9, trainable_parameters=1, parameters=9)
    line = step(1).model_dump_json()
    write_atomic(run.events, train.model_dump_json() + "\n" + (line + "\n") * 20_000)
    reader = SnapshotReader(run)
    assert len(reader.read().steps) == 20_000
    begin = time.process_time()
    for _ in range(100):
        reader.read()
    assert (time.process_time() - begin) / 100 < 0.005
