"""The registry: folders whole or not at all, found by what a person types."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.fakes import make_run
from zeroboard.contract.plan import hash_plan, plan_json
from zeroboard.errors import BrokenFile, NotFound
from zeroboard.files import read_json, to_json, write_atomic
from zeroboard.paths import RUN_ID, Paths
from zeroboard.runs import registry
from zeroboard.runs.locks import run_lock


@pytest.mark.parametrize(
    ("model", "stage", "wanted"),
    [
        ("SmolLM2-135M-Instruct", "2", "smollm2-135m-instruct-z2-"),
        ("/models/我的模型", "none", "model-ddp-"),
        ("a" * 300, "3", "a" * 24 + "-z3-"),
        ("x/Qwen2.5_7B", "1", "qwen2-5-7b-z1-"),
    ],
)
def test_an_id_tells_time_model_and_stage_and_may_be_a_folder(model: str, stage: str, wanted: str) -> None:
    found = registry.new_id(model, stage)
    assert RUN_ID.fullmatch(found) and found[16:-4] == wanted
    assert found[:15] <= time.strftime("%Y%m%d-%H%M%S")


def test_a_folder_holds_what_the_plan_says_to_the_byte(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    plan = registry.read_plan(run)
    for name, content in plan.files.items():
        assert (run.folder / name).read_text() == content
    assert read_json(run.plan) == plan_json(plan) and read_json(run.plan)["batch"]["global"] == 4
    state = registry.read_state(run)
    assert (state.state, state.devices, state.ranks, state.plan_hash) == ("planned", ("cpu",), 2, hash_plan(plan))
    assert [p.name for p in run.folder.parent.iterdir()] == [run.id]


def test_the_newest_stands_first(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    made = [make_run(paths).id for _ in range(3)]
    assert [s.id for s in registry.list_runs(paths)] == made[::-1]
    assert registry.find(paths, "last").id == made[-1]


def test_a_run_is_found_by_an_unambiguous_beginning(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    with pytest.raises(NotFound, match="no-runs"):
        registry.find(paths, "last")
    run = make_run(paths)
    assert registry.find(paths, run.id[:-2]).id == run.id
    with pytest.raises(NotFound, match="run-not-found"):
        registry.find(paths, "nobody")
    make_run(paths)
    with pytest.raises(NotFound, match="ambiguous"):
        registry.find(paths, run.id[:4])
    with pytest.raises(NotFound):
        registry.find(paths, "../../etc")


def test_what_was_never_started_is_removed_after_a_day_and_nothing_else(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    old, started, locked, young = (make_run(paths) for _ in range(4))
    day = 25 * 3600
    for run in (old, started, locked):
        state = registry.read_state(run).model_copy(update={"created": time.time() - day})
        if run is started:
            state = state.model_copy(update={"state": "finished"})
        write_atomic(run.state, to_json(state.model_dump(mode="json")))
    lock = run_lock(locked.lock)
    assert lock.take("x")
    try:
        assert registry.remove_never_started(paths) == (old.id,)
    finally:
        lock.release()
    assert not old.folder.exists() and started.folder.exists() and locked.folder.exists() and young.folder.exists()


def test_a_broken_state_is_said_and_a_missing_run_is_not_found(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    run = make_run(paths)
    write_atomic(run.state, "{}")
    with pytest.raises(BrokenFile):
        registry.read_state(run)
    with pytest.raises(NotFound):
        registry.read_state(paths.run("nobody"))
