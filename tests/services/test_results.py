"""What came out of the runs: found by run or by path, judged from its files."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from tests.fakes import QUICK, make_run, popen
from zeroboard.chat.session import ChatSession
from zeroboard.cli import main
from zeroboard.contract.problems import Problem
from zeroboard.contract.state import ProcessMark
from zeroboard.errors import Busy, NotFound, Refused
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs.locks import device_lock
from zeroboard.runs.supervisor import supervise
from zeroboard.services import results


@pytest.fixture
def finished(tmp_path: Path) -> tuple[Paths, RunPaths]:
    paths = Paths(tmp_path / "cache")
    make_run(paths)  # one that has no result
    run = make_run(paths)
    assert supervise(run, popen=popen, timing=QUICK) == 0
    return paths, run


def test_every_run_with_a_result_is_listed_with_its_verdict(finished: tuple[Paths, RunPaths]) -> None:
    paths, run = finished
    (output,) = results.outputs(paths)
    assert (output.run_id, output.folder, output.base) == (run.id, run.model, paths.models / "tiny")
    assert (output.kind, output.verdict) == ("lora-adapter", "pass")


def test_a_run_stands_for_its_result_and_a_path_for_itself(finished: tuple[Paths, RunPaths]) -> None:
    paths, run = finished
    wanted = results.Place(path=run.model, base=paths.models / "tiny")
    assert results.place(paths, run.id) == results.place(paths, "last") == wanted
    assert results.place(paths, str(run.model)) == results.Place(path=run.model)
    planned = next(s for s in results.registry.list_runs(paths) if s.state == "planned")
    for word in (planned.id, "nobody", "/nowhere"):
        with pytest.raises(NotFound):
            results.place(paths, word)


def test_a_chat_for_which_there_is_no_room_names_the_run_that_holds_the_device(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise Refused([Problem(code="gpu-busy", says="load.no-gpu-memory")])

    monkeypatch.setattr(ChatSession, "open", full)
    lock = device_lock(paths, "GPU-1")
    assert lock.take("20261130-000000-night-z2-0000")
    with pytest.raises(Refused) as refused:
        results.open_chat(paths, tmp_path)
    lock.release()
    first, second = refused.value.problems
    assert first.says == "load.no-gpu-memory"
    assert second.params == {"devices": "GPU-1", "run": "20261130-000000-night-z2-0000"}


def test_a_folder_is_judged_from_its_files(
    finished: tuple[Paths, RunPaths], capsys: pytest.CaptureFixture[str]
) -> None:
    paths, run = finished
    report = results.verify(run.model, load=False)
    assert report.verdict == "fail"  # the fake wrote four letters
    skipped = [(c.name, c.verdict, c.says) for c in report.checks if c.name in ("load", "effect")]
    assert skipped == [("load", "skip", "check.load.not-asked"), ("effect", "skip", "check.effect.not-asked")]
    assert main(["verify", run.id, "--cache", str(paths.root)]) == 1
    assert "fail" in capsys.readouterr().out
    with pytest.raises(NotFound):
        results.verify(run.model / "none", load=False)


def test_checkpoints_are_listed_beside_the_result_newest_first(finished: tuple[Paths, RunPaths]) -> None:
    paths, run = finished
    for step in (8, 40):
        (run.checkpoints / f"checkpoint-{step}").mkdir(parents=True, exist_ok=True)
        (run.checkpoints / f"checkpoint-{step}" / "adapter_model.safetensors").write_bytes(b"half")
    (run.checkpoints / "tmp-checkpoint-99").mkdir()
    steps = [o.step for o in results.outputs(paths)]
    assert steps[0] is None and steps[1] == 40 and 8 in steps and 99 not in steps
    found = results.output(paths, f"{run.id}/checkpoint-40")
    assert (found.kind, found.verdict, found.step) == ("lora-adapter", None, 40)
    assert results.read_report(paths, found) is None
    for name in (f"{run.id}/checkpoint-41", f"{run.id}/model", f"{run.id}/../{run.id}", "../etc", ""):
        with pytest.raises(NotFound):
            results.output(paths, name)


def test_a_report_is_kept_where_its_output_belongs(finished: tuple[Paths, RunPaths]) -> None:
    paths, run = finished
    folder = run.checkpoints / "checkpoint-40"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_model.safetensors").write_bytes(b"half")
    found = results.output(paths, f"{run.id}/checkpoint-40")
    before = run.verify_report.read_bytes()
    report = results.verify_output(paths, found)
    assert report.verdict == "fail"
    assert (run.reports / "verify-checkpoint-40.json").is_file() and run.verify_report.read_bytes() == before
    assert results.read_report(paths, found) == report
    assert results.output(paths, found.id).verdict == "fail"


def test_a_folder_from_elsewhere_is_read_and_not_written(tmp_path: Path, finished: tuple[Paths, RunPaths]) -> None:
    paths, _ = finished
    folder = tmp_path / "from elsewhere 中文"
    folder.mkdir()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    found = results.foreign(f" {folder} ")
    assert (found.id, found.kind, found.run_id) == (str(folder), "full-model", None)
    results.verify_output(paths, found)
    assert [p.name for p in folder.iterdir()] == ["pytorch_model.bin"]
    for wrong in ("", "/nowhere/at/all", "a\0b", "~nobody-of-that-name/x"):
        with pytest.raises(NotFound):
            results.foreign(wrong)
    with pytest.raises(NotFound):
        results.foreign(str(folder), base="/nowhere")


def test_the_result_of_a_run_at_work_is_not_verified_under_its_hands(finished: tuple[Paths, RunPaths]) -> None:
    paths, run = finished
    state = results.registry.read_state(run)
    mark = ProcessMark(pid=os.getpid(), started=psutil.Process().create_time())
    running = state.model_copy(update={"state": "verifying", "supervisor": mark})
    run.state.write_text(running.model_dump_json())
    with pytest.raises(Busy):
        results.verify_output(paths, results.output(paths, run.id))
