"""What the browsers share: a run that nobody looks after is taken up by whoever lists it; verdicts are read once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.fakes import make_run
from zeroboard.contract.reports import VerifyReport
from zeroboard.contract.state import ENDED, State
from zeroboard.errors import NotFound
from zeroboard.files import to_json, write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs.registry import read_state
from zeroboard.ui.shared import Fresh, Shared


def put_state(run: RunPaths, state: State) -> None:
    changed = read_state(run).model_copy(update={"state": state, "started": time.time()})
    write_atomic(run.state, to_json(changed.model_dump(mode="json")))


def test_a_value_is_made_again_only_when_it_is_old_or_forgotten() -> None:
    made: list[int] = []
    fresh = Fresh(lambda: made.append(1) or len(made), seconds=60)
    assert (fresh.get(), fresh.get()) == (1, 1)
    fresh.forget()
    assert fresh.get() == 2


def test_a_run_whose_supervisor_died_is_taken_up_while_the_page_looks(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "cache")
    run = make_run(paths)
    put_state(run, "running")
    shared = Shared(paths)
    assert [state.state for state in shared.runs.get()] == ["lost"]
    until = time.monotonic() + 30
    while read_state(run).state not in ENDED and time.monotonic() < until:
        time.sleep(0.1)
    ended = read_state(run)
    assert ended.state == "failed" and ended.problem is not None
    assert ended.problem.says == "run.failed.supervisor-died"


def test_all_browsers_share_one_reader_and_nothing_is_read_twice(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "cache")
    run = make_run(paths)
    run.rank_log(0).write_text("one\n")
    shared = Shared(paths)
    assert shared.snapshot(run.id) is shared.snapshot(run.id)
    assert shared.log(run.id, "rank 0") is shared.log(run.id, "rank 0")
    assert shared.log(run.id, "rank 0").look() is shared.log(run.id, "rank 0").look()
    with pytest.raises(NotFound):
        shared.log(run.id, "../state")


def test_a_new_verification_is_shown_in_the_list(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "cache")
    run = make_run(paths)
    put_state(run, "finished")
    report = VerifyReport(path=str(run.model), kind="lora-adapter", verdict="pass", checks=())
    write_atomic(run.verify_report, report.model_dump_json())
    shared = Shared(paths)
    assert shared.verdicts() == {run.id: "pass"}
    write_atomic(run.verify_report, report.model_copy(update={"verdict": "fail"}).model_dump_json())
    assert shared.verdicts() == {run.id: "pass"}
    shared.forget_verdicts()
    assert shared.verdicts() == {run.id: "fail"}
