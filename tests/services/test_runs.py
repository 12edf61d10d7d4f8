"""Runs through the services: detached supervisors, a second start, adoption after a supervisor was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import make_run, popen
from zeroboard.catalogue import MODELS
from zeroboard.contract.requests import read_stop
from zeroboard.contract.state import ENDED
from zeroboard.errors import BrokenFile, Busy, EngineFailed, NotFound
from zeroboard.files import write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs.locks import device_lock, holder, run_lock
from zeroboard.runs.processes import alive, kill_marked, marked
from zeroboard.runs.registry import read_state
from zeroboard.services import logs, prepare, runs, show


def until(test: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def ended(run: RunPaths) -> Callable[[], bool]:
    return lambda: read_state(run).state in ENDED


def kill_supervisor(run: RunPaths) -> None:
    mark = read_state(run).supervisor
    assert mark is not None and alive(mark)
    os.kill(mark.pid, signal.SIGKILL)
    until(lambda: not alive(mark))


def test_a_start_returns_when_the_supervisor_has_taken_over_and_the_run_outlives_the_call(paths: Paths) -> None:
    run = make_run(paths)
    state = runs.start(paths, run.id, popen=popen)
    assert state.state != "planned" and state.supervisor is not None
    until(ended(run))
    said = show.show(paths, run.id)
    assert said["state"] == "finished" and said["progress"]["step"] == 3 and len(said["metrics"]) == 3
    assert said["proof"]["ranks"][1]["rank"] == 1 and said["report"]["verdict"] == "pass"
    assert said["spec"]["zero"]["stage"] == "2"
    assert logs.names(paths, run.id) == ("rank 0", "rank 1", "launcher", "supervisor", "verbs")


def test_a_second_start_on_a_busy_device_is_refused_and_names_who_holds_it(paths: Paths) -> None:
    first, second = make_run(paths, "--steps", "1000"), make_run(paths)
    runs.start(paths, first.id, popen=popen)
    with pytest.raises(Busy) as refused:
        runs.start(paths, second.id, popen=popen)
    assert refused.value.params == {"devices": "cpu", "run": first.id}
    assert read_state(second).state == "planned"
    runs.stop(paths, first.id, discard=True)
    until(ended(first))
    assert runs.start(paths, second.id, popen=popen).state != "planned"
    until(ended(second))


def test_a_start_waits_for_the_device_of_a_run_that_has_ended_and_lets_go_a_moment_later(paths: Paths) -> None:
    first, second = make_run(paths), make_run(paths)
    runs.start(paths, first.id, popen=popen)
    until(ended(first))
    lock = device_lock(paths, "cpu")
    until(lambda: lock.take(first.id))  # as its supervisor holds it between its last word and its exit
    threading.Timer(0.5, lock.release).start()
    assert runs.start(paths, second.id, popen=popen).state != "planned"
    until(ended(second))


@pytest.mark.skipif(find_spec(MODELS[0].module) is None, reason="the bundled model's package is not installed")
def test_data_that_changed_since_the_preview_is_not_trained_on(paths: Paths, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"instruction": "a", "output": "b"}\n')
    planned = prepare.prepare(paths, prepare.load_spec("demo", [f"data.path={data}"]))
    assert planned.run_id is not None and planned.resolved is not None
    data.write_text('{"instruction": "a", "output": "another"}\n')
    run = paths.run(planned.run_id)
    runs.start(paths, run.id, popen=popen)
    until(ended(run))
    problem = read_state(run).problem
    assert problem is not None and (problem.code, problem.says) == ("plan-changed", "run.failed.data-changed")
    assert not (paths.tokens / planned.resolved.tokens_key).exists()


def test_a_started_run_cannot_be_started_again(paths: Paths) -> None:
    run = make_run(paths)
    runs.start(paths, run.id, popen=popen)
    with pytest.raises(Busy, match="run-started"):
        runs.start(paths, run.id, popen=popen)
    until(ended(run))


def test_a_run_whose_supervisor_is_killed_is_lost_and_the_adopter_brings_it_home(paths: Paths) -> None:
    run = make_run(paths, "--steps", "60")
    runs.start(paths, run.id, popen=popen)
    until(lambda: read_state(run).step > 1)
    kill_supervisor(run)
    assert runs.list_runs(paths)[0].state == "lost"
    assert runs.reader(paths, run.id).read().state.state == "lost"
    assert runs.adopt_orphans(paths, popen=popen) == (run.id,)
    until(ended(run))
    state = read_state(run)
    assert state.state == "finished" and state.step == 60
    assert runs.adopt_orphans(paths, popen=popen) == ()


def test_a_run_that_ended_while_nobody_watched_is_finished_by_the_adopter(paths: Paths) -> None:
    run = make_run(paths, "--steps", "20")
    runs.start(paths, run.id, popen=popen)
    until(lambda: read_state(run).step > 0)
    kill_supervisor(run)
    until(lambda: marked(run.id) == ())
    runs.adopt_orphans(paths, popen=popen)
    until(ended(run))
    assert read_state(run).state == "finished" and run.verify_report.is_file()


def test_a_run_whose_processes_all_died_is_failed_by_the_adopter(paths: Paths) -> None:
    run = make_run(paths, "--steps", "1000")
    runs.start(paths, run.id, popen=popen)
    until(lambda: read_state(run).step > 0)
    kill_supervisor(run)
    kill_marked(run.id)
    runs.adopt_orphans(paths, popen=popen)
    until(ended(run))
    problem = read_state(run).problem
    assert problem is not None and problem.says == "run.failed.supervisor-died"


def test_a_lost_run_without_a_readable_plan_is_failed_once_and_for_all(paths: Paths) -> None:
    run = make_run(paths, "--steps", "1000")
    runs.start(paths, run.id, popen=popen)
    until(lambda: read_state(run).step > 0)
    kill_supervisor(run)
    write_atomic(run.plan, "no plan")
    assert runs.adopt_orphans(paths, popen=popen) == (run.id,)
    until(ended(run))
    problem = read_state(run).problem
    assert problem is not None and (problem.code, problem.params["file"]) == ("plan-changed", "plan.json")
    assert marked(run.id) == () and runs.adopt_orphans(paths, popen=popen) == ()


def test_a_stop_reaches_a_run_whose_supervisor_was_killed(paths: Paths) -> None:
    run = make_run(paths, "--steps", "1000")
    runs.start(paths, run.id, popen=popen)
    until(lambda: read_state(run).step > 0)
    kill_supervisor(run)
    runs.adopt_orphans(paths, popen=popen)
    runs.stop(paths, run.id)
    until(ended(run))
    assert read_state(run).state == "stopped" and run.model.is_dir()


def test_a_stop_is_sharpened_to_discard_but_never_softened(paths: Paths) -> None:
    run = make_run(paths, "--steps", "1000", "--deaf")
    runs.start(paths, run.id, popen=popen)
    runs.stop(paths, run.id, discard=True)
    runs.stop(paths, run.id, discard=False)
    asked = read_stop(run)
    assert asked is not None and asked.discard
    until(ended(run))
    assert read_state(run).state == "stopped"


def test_what_is_not_running_cannot_be_stopped(paths: Paths) -> None:
    run = make_run(paths)
    with pytest.raises(Busy, match="run-not-running"):
        runs.stop(paths, run.id)
    with pytest.raises(NotFound):
        runs.stop(paths, "20260101-000000-nobody-z2-0000")
    with pytest.raises(NotFound):
        runs.reader(paths, "../etc")


def test_a_supervisor_that_cannot_begin_is_said_with_its_log(paths: Paths) -> None:
    run = make_run(paths)
    run.lock.mkdir()
    with pytest.raises(EngineFailed) as failed:
        runs.start(paths, run.id, popen=popen)
    assert "run.lock" in str(failed.value.params["tail"])


def test_a_broken_folder_is_listed_and_left_alone(paths: Paths) -> None:
    run = make_run(paths)
    write_atomic(run.state, '{"id": "half')
    (paths.runs / "empty").mkdir()
    found = runs.list_runs(paths)
    assert [s.problem.code for s in found if s.problem is not None] == ["run-unreadable"] * 2
    assert runs.adopt_orphans(paths, popen=popen) == ()


def test_a_device_lock_does_not_outlive_its_holder(paths: Paths) -> None:
    run = make_run(paths, "--steps", "1000")
    runs.start(paths, run.id, popen=popen)
    until(lambda: read_state(run).step > 0)
    kill_supervisor(run)
    kill_marked(run.id)
    lock = device_lock(paths, "cpu")
    assert lock.take("next")
    lock.release()


def test_only_files_of_the_plan_are_handed_out_by_name(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    plan = prepare.prepare(paths, prepare.load_spec("demo", ["zero.stage=2"]))
    run_id = plan.run_id or ""
    assert runs.plan_file(paths, run_id, "spec.yaml").read_text() == plan.files["spec.yaml"]
    for name in ("state.json", "../spec.yaml", "logs/launcher.log"):
        with pytest.raises(NotFound):
            runs.plan_file(paths, run_id, name)
    assert runs.stop_asked(paths, run_id) is False


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_damaged_plan_is_not_started_and_told_by_its_file(paths: Paths, content: str | None) -> None:
    run = make_run(paths)
    if content is None:
        run.plan.unlink()
    else:
        run.plan.write_text(content)
    with pytest.raises(BrokenFile) as caught:
        runs.start(paths, run.id, popen=popen)
    assert caught.value.params["path"] == str(run.plan) and read_state(run).state == "planned"


def test_a_stop_says_what_holds_and_not_what_was_asked_last(paths: Paths) -> None:
    run = make_run(paths, "--steps", "1000")
    runs.start(paths, run.id, popen=popen)
    assert [runs.stop(paths, run.id, discard=wish).stop for wish in (False, True, False)] == [
        "save",
        "discard",
        "discard",
    ]


def test_a_supervisor_that_does_not_take_over_in_time_never_will(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(paths)
    monkeypatch.setattr(runs, "STARTED", 0.2)
    started: list[subprocess.Popen[bytes]] = []

    def sleepy(argv: list[str], **rest: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "60"], **rest))
        return started[-1]

    with pytest.raises(EngineFailed):
        runs.start(paths, run.id, popen=sleepy)
    assert [process.poll() for process in started] == [-signal.SIGKILL]
    assert read_state(run).state == "planned" and holder(run.lock) is None
    monkeypatch.setattr(runs, "STARTED", 60.0)
    assert runs.start(paths, run.id, popen=popen).state != "planned"  # and it can be started again
    until(ended(run))


def test_a_supervisor_that_takes_over_at_the_last_moment_is_waited_for(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(paths)
    monkeypatch.setattr(runs, "STARTED", 0.0)
    lock = run_lock(run.lock)
    assert lock.take(run.id)  # as the supervisor holds it before it has written its first state
    begun = read_state(run).model_copy(update={"state": "starting"})
    started: list[subprocess.Popen[bytes]] = []

    def slow(argv: list[str], **rest: Any) -> subprocess.Popen[bytes]:
        threading.Timer(1.5, write_atomic, (run.state, begun.model_dump_json())).start()
        started.append(subprocess.Popen(["sleep", "60"], **rest))
        return started[-1]

    try:
        assert runs.start(paths, run.id, popen=slow).state == "starting"
        assert started[0].poll() is None
    finally:
        started[0].kill()
        lock.release()
