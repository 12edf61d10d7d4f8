"""A run's life, with a fake engine: every way that it may begin, go on and end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import QUICK, make_run, popen
from zeroboard import swapfolders
from zeroboard.contract.events import StateEvent
from zeroboard.contract.plan import hash_plan, plan_json
from zeroboard.contract.requests import StopRequest
from zeroboard.contract.state import RunState
from zeroboard.errors import NotFound
from zeroboard.files import append_line, read_json, to_json, write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs import ending
from zeroboard.runs.follow import Follower
from zeroboard.runs.locks import device_lock, holders
from zeroboard.runs.processes import marked
from zeroboard.runs.registry import drop_planned, read_plan, read_state
from zeroboard.runs.snapshot import SnapshotReader
from zeroboard.runs.supervisor import TAKEN, UNSAID, supervise


def live(run: RunPaths, **rest: object) -> RunState:
    assert supervise(run, popen=popen, timing=QUICK, **rest) == 0  # type: ignore[arg-type]
    return read_state(run)


def states(run: RunPaths) -> list[str]:
    return [e.state for e in Follower(run.events).read() if isinstance(e, StateEvent)]


def stop(run: RunPaths, *, discard: bool = False) -> None:
    write_atomic(run.stop_request, to_json(StopRequest(discard=discard, time=time.time()).model_dump(mode="json")))


def when(test: Callable[[], bool], act: Callable[[], None]) -> threading.Thread:
    """Does something as soon as something is true, beside the supervisor."""

    def wait() -> None:
        until = time.monotonic() + 20
        while not test() and time.monotonic() < until:
            time.sleep(0.02)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def in_state(run: RunPaths, *names: str) -> Callable[[], bool]:
    return lambda: read_state(run).state in names


def test_a_run_goes_from_planned_to_finished_and_is_verified(paths: Paths) -> None:
    run = make_run(paths, "--save-at", "2")
    state = live(run)
    assert state.state == "finished" and state.problem is None and state.exit_code == 0
    assert (state.step, state.steps, state.loss) == (3, 3, pytest.approx(2 / 3))
    went = states(run)  # the short save of the result may be seen, or fall between two looks
    assert went[:4] == ["starting", "running", "saving", "running"] and went[-2:] == ["verifying", "finished"]
    shown = SnapshotReader(run).read()
    assert shown.report is not None and shown.report.verdict == "pass"
    assert [rank.rank for rank in shown.ranks] == [0, 1]
    assert shown.proof is not None and len(shown.proof.ranks) == 2
    assert holders(paths) == {}
    assert "fake launcher" in run.launcher_log.read_text()


def test_what_is_not_there_is_prepared_first_and_the_steps_are_counted(paths: Paths) -> None:
    run = make_run(paths, tokens=False, bundled=True, env={"FAKE_ROWS": "6"})
    state = live(run)
    assert state.state == "finished"
    phases = [e.phase for e in Follower(run.events).read() if e.kind == "phase" and e.rank < 0]
    assert phases[0] == "convert" and "tokenise" in phases and "launch" in phases and phases[-1] == "verify"
    assert (paths.models / "SmolLM2-135M-Instruct" / "config.json").is_file()
    assert "this goes to the log" in (run.logs / "verbs.log").read_text()


def test_data_with_nothing_to_learn_fails_before_any_rank_starts(paths: Paths) -> None:
    run = make_run(paths, tokens=False, env={"FAKE_ROWS": "0"})
    state = live(run)
    assert state.state == "failed" and state.problem is not None
    assert state.problem.code == "no-trainable-tokens" and state.problem.field == "data.path"
    assert not run.launcher_log.exists()


def test_a_file_that_was_changed_since_the_preview_is_refused(paths: Paths) -> None:
    run = make_run(paths)
    write_atomic(run.folder / "ds_z2_config.json", '{"zero_optimization": {"stage": 0}}\n')
    state = live(run)
    assert state.state == "failed" and state.problem is not None
    assert state.problem.code == "plan-changed" and state.problem.params["file"] == "ds_z2_config.json"
    assert not run.launcher_log.exists()


@pytest.mark.parametrize(("key", "value"), [("argv", ["/bin/true"]), ("env", {"EVIL": "1"}), ("scrubbed", [])])
def test_a_plan_that_was_changed_since_the_preview_is_refused(paths: Paths, key: str, value: object) -> None:
    run = make_run(paths)
    write_atomic(run.plan, to_json({**read_json(run.plan), key: value}))
    state = live(run)
    assert state.state == "failed" and state.problem is not None
    assert state.problem.code == "plan-changed" and state.problem.params["file"] == "plan.json"
    assert not run.launcher_log.exists()


def test_a_run_that_was_removed_is_not_made_again_by_its_supervisor(paths: Paths) -> None:
    run = make_run(paths)
    assert drop_planned(run)
    with pytest.raises(NotFound):
        supervise(run, popen=popen, timing=QUICK)
    assert not run.folder.exists()


def test_the_exception_of_the_rank_that_failed_first_is_the_reason(paths: Paths) -> None:
    run = make_run(paths, "--fail-at", "2")
    state = live(run)
    assert state.state == "failed" and state.exit_code == 1 and state.problem is not None
    assert state.problem.params["rank"] == 1 and state.problem.params["type"] == "ValueError"
    assert "row 7" in str(state.problem.params["message"])


def test_a_launcher_that_is_killed_is_said_with_its_signal(paths: Paths) -> None:
    state = live(make_run(paths, "--die-at", "2"))
    assert state.state == "failed" and state.exit_code == -9 and state.problem is not None
    assert state.problem.code in ("killed-by-signal", "host-oom") and state.problem.params["signal"] == "SIGKILL"


@pytest.mark.parametrize("way", [(), ("--die-at", "2"), ("--fail-at", "2")])
def test_what_a_run_has_swapped_to_a_disk_does_not_outlive_it(
    paths: Paths, tmp_path: Path, way: tuple[str, ...]
) -> None:
    run = make_run(paths, *way, swap=tmp_path)
    folder, kept = tmp_path / run.id, tmp_path / "somebody-else"
    swapfolders.claim(folder, run, started=time.time())  # as the first rank does, which here leaves it
    (folder / "0.tensor.swp").write_bytes(bytes(4096))
    kept.mkdir()
    assert live(run).state == ("failed" if way else "finished")
    assert not folder.exists() and kept.is_dir()


def test_ranks_that_leave_without_a_word_have_not_trained(paths: Paths) -> None:
    state = live(make_run(paths, "--silent"))
    assert state.state == "failed" and state.problem is not None and state.problem.code == "no-training-happened"


def test_a_launcher_that_cannot_be_started_fails_the_run(paths: Paths) -> None:
    run = make_run(paths)
    plan = read_plan(run)
    plan = plan.model_copy(update={"argv": ("/nowhere/python", *plan.argv[1:])})
    write_atomic(run.plan, to_json(plan_json(plan)))
    known = read_state(run).model_copy(update={"plan_hash": hash_plan(plan)})
    write_atomic(run.state, to_json(known.model_dump(mode="json")))
    state = live(run)
    assert state.state == "failed" and state.problem is not None
    assert state.problem.says == "run.failed.launch" and "/nowhere/python" in str(state.problem.params)


def test_a_result_that_does_not_pass_fails_the_run_and_is_kept(paths: Paths) -> None:
    run = make_run(paths, env={"FAKE_VERDICT": "fail"})
    state = live(run)
    assert state.state == "failed" and state.problem is not None
    assert state.problem.code == "verify-failed" and state.problem.params["check"] == "trained"
    assert (run.model / "adapter_model.safetensors").is_file() and run.verify_report.is_file()


def test_a_verification_that_crashes_is_said_with_its_last_words(paths: Paths) -> None:
    state = live(make_run(paths, env={"FAKE_VERB_FAILS": "verify"}))
    assert state.state == "failed" and state.problem is not None
    assert state.problem.params["verb"] == "verify" and "fake trouble" in str(state.problem.params["message"])


def test_a_stop_saves_verifies_and_ends_as_stopped(paths: Paths) -> None:
    run = make_run(paths, "--steps", "1000")
    when(in_state(run, "running"), lambda: stop(run))
    state = live(run)
    assert state.state == "stopped" and state.stop == "save" and state.problem is None
    assert states(run)[-3:] == ["stopping", "verifying", "stopped"]
    assert run.verify_report.is_file() and run.model.is_dir()


def test_a_stop_that_discards_leaves_no_weights(paths: Paths) -> None:
    run = make_run(paths, "--steps", "1000", "--save-at", "1")
    when(lambda: read_state(run).step > 1, lambda: stop(run, discard=True))
    state = live(run)
    assert state.state == "stopped" and state.stop == "discard"
    assert not run.model.exists() and not run.checkpoints.exists()


@pytest.mark.parametrize("discard", [False, True])
def test_ranks_that_stop_between_two_looks_of_the_supervisor_have_stopped(paths: Paths, discard: bool) -> None:
    run = make_run(paths, "--steps", "1000")
    when(lambda: run.events.exists() and '"kind":"step"' in run.events.read_text(), lambda: stop(run, discard=discard))
    assert supervise(run, popen=popen, timing=replace(QUICK, tick=3.0)) == 0
    state = read_state(run)
    assert state.state == "stopped" and state.stop == ("discard" if discard else "save") and state.problem is None
    assert run.model.exists() is not discard


def test_before_training_began_a_stop_ends_it_at_once(paths: Paths) -> None:
    run = make_run(paths, "--load", "60")
    when(lambda: read_state(run).phase == "launch", lambda: stop(run))
    begin = time.monotonic()
    state = live(run)
    assert state.state == "stopped" and state.problem is None
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("verb", ["convert", "tokenise"])
def test_a_stop_works_while_preparing(paths: Paths, verb: str) -> None:
    run = make_run(paths, tokens=False, bundled=True, env={"FAKE_VERB_HANGS": verb})
    when(lambda: read_state(run).phase == verb, lambda: stop(run))
    state = live(run)
    assert state.state == "stopped" and not run.launcher_log.exists()
    assert marked(run.id) == ()


def test_past_its_deadline_a_deaf_engine_is_ended_and_nothing_of_it_survives(paths: Paths) -> None:
    run = make_run(paths, "--steps", "1000", "--deaf", "--ignore-term", "--stray")
    when(lambda: read_state(run).step > 0, lambda: stop(run))
    state = live(run)
    assert state.state == "failed" and state.problem is not None
    assert state.problem.says == "run.failed.stop-forced"
    assert marked(run.id) == ()


def test_a_worker_that_outlives_its_launcher_is_ended(paths: Paths) -> None:
    run = make_run(paths, "--stray")
    assert live(run).state == "finished"
    assert marked(run.id) == ()


def test_a_busy_device_leaves_the_run_planned(paths: Paths) -> None:
    run = make_run(paths)
    other = device_lock(paths, "cpu")
    assert other.take("somebody-else")
    try:
        assert supervise(run, popen=popen, timing=QUICK) == TAKEN
    finally:
        other.release()
    assert read_state(run).state == "planned"


def test_a_run_that_has_ended_is_not_started_again(paths: Paths) -> None:
    run = make_run(paths)
    live(run)
    assert supervise(run, popen=popen, timing=QUICK) == TAKEN


def test_a_full_disk_for_a_moment_loses_nothing(paths: Paths) -> None:
    run = make_run(paths, "--steps", "30")
    refused = []

    def write(path: Path, content: str) -> None:
        if len(refused) < 6:
            refused.append(path)
            raise OSError(28, "No space left on device")
        write_atomic(path, content)

    state = live(run, write=write)
    assert len(refused) == 6 and state.state == "finished" and state.step == 30


def test_a_disk_that_stays_full_ends_the_run_as_failed(paths: Paths) -> None:
    run = make_run(paths, "--steps", "1000")
    refused: list[float] = []

    def write(path: Path, content: str) -> None:
        if read_state(run).state == "running" and (not refused or time.monotonic() < refused[0] + 3):
            refused.append(time.monotonic())
            raise OSError(28, "No space left on device")
        write_atomic(path, content)

    def append(path: Path, line: str) -> None:
        append_line(path, line)

    state = live(run, write=write, append=append)
    assert state.state == "failed" and state.problem is not None and state.problem.code == "disk-full"
    assert marked(run.id) == ()


@pytest.mark.parametrize("again", [False, True])
def test_a_run_whose_folder_is_removed_ends_at_once_and_holds_no_device(paths: Paths, again: bool) -> None:
    run = make_run(paths, "--steps", "1000", "--step-time", "0.05")

    def remove() -> None:
        run.folder.rename(paths.root / "removed")
        if again:  # a rank that saves makes its folders
            run.checkpoints.mkdir(parents=True)

    when(in_state(run, "running"), remove)
    began = time.monotonic()
    assert supervise(run, popen=popen, timing=replace(QUICK, disk=60.0, settle=60.0)) == UNSAID
    assert time.monotonic() - began < 20 and not run.state.exists()
    assert holders(paths) == {} and not marked(run.id)


def test_ranks_that_die_mute_beside_a_full_disk_died_of_it(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "FULL", 1 << 60)  # as if nothing were free
    run = make_run(paths, "--die-at", "2")
    state = live(run)
    assert state.state == "failed" and state.problem is not None and state.problem.code == "disk-full"
    spoken = live(make_run(paths, "--fail-at", "2"))
    assert spoken.problem is not None and spoken.problem.code == "python-exception"
