"""From a wish to a folder: what Preview shows is what Start finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zeroboard.contract.plan import hash_files, hash_plan, plan_json
from zeroboard.contract.requests import Progress
from zeroboard.errors import NotFound, Refused
from zeroboard.files import read_json
from zeroboard.paths import Paths
from zeroboard.runs.registry import list_runs, read_plan, read_state
from zeroboard.services import judging, prepare


def test_the_demo_is_a_spec_and_sets_go_over_it() -> None:
    spec = prepare.load_spec("demo", ["zero.stage=3", "zero.offload=all", "train.max_steps=2"])
    assert (spec.zero.stage, spec.zero.offload, spec.train.max_steps) == ("3", "all", 2)
    assert prepare.default_spec() == prepare.load_spec("demo")


def test_every_problem_of_a_spec_is_named_at_once() -> None:
    with pytest.raises(Refused) as refused:
        prepare.load_spec("demo", ["zero.stage=9", "train.epochs=often", "nothing.like=this"])
    assert {p.field for p in refused.value.problems} >= {"zero.stage", "train.epochs"}
    assert len(refused.value.problems) == 3


def test_a_preview_writes_nothing_and_the_folder_holds_what_it_showed(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "cache")
    spec = prepare.load_spec("demo", ["zero.stage=2", "zero.offload=optimizer"])
    shown = prepare.plan(paths, spec)
    if not shown.ok:  # without a compiler offload is refused, which is a plan as well
        spec = prepare.load_spec("demo", ["zero.stage=2"])
        shown = prepare.plan(paths, spec)
    assert shown.ok and not paths.root.exists()
    written = prepare.prepare(paths, spec)
    assert written.run_id is not None
    run = paths.run(written.run_id)
    for name, content in written.files.items():
        assert (run.folder / name).read_bytes() == content.encode()
    assert read_json(run.plan) == plan_json(written)
    assert written.files_hash == shown.files_hash == hash_files(dict(shown.files))
    assert read_state(run).plan_hash == hash_plan(read_plan(run)) == hash_plan(written)
    assert [w.replace(written.run_id, "<run>") for w in written.argv] == list(shown.argv)


def test_a_plan_with_errors_gets_no_folder(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "cache")
    spec = prepare.load_spec("demo", ["model.path=/no/model", "data.path=/no/data.jsonl", "zero.stage=none"])
    plan = prepare.plan(paths, spec)
    assert {p.code for p in plan.problems} >= {"model-missing", "data-missing"}
    with pytest.raises(Refused):
        prepare.prepare(paths, spec)
    assert list_runs(paths) == ()


def test_a_data_file_is_judged_again_when_it_changes(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"instruction": "Hi", "output": "Hello"}\n')
    assert judging.judge_data(str(data)).usable == 1
    assert judging.judge_data(str(data)) is judging.judge_data(str(data))
    data.write_text('{"instruction": "Hi", "output": "Hello"}\n{"instruction": "Bye", "output": "Farewell"}\n')
    assert judging.judge_data(str(data)).usable == 2
    with pytest.raises(NotFound):
        judging.judge_data(str(tmp_path / "none.jsonl"))


def test_the_choices_name_what_is_bundled_and_what_lies_in_the_cache(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    (paths.models / "mine").mkdir(parents=True)
    (paths.models / "mine" / "config.json").write_text("{}")
    (paths.models / "half").mkdir()
    found = prepare.choices(paths)
    assert found.models == ("SmolLM2-135M-Instruct", str(paths.models / "mine"))
    assert found.datasets[:2] == ("demo-en", "demo-zh")


def test_folders_that_runs_used_lately_are_offered_as_models(
    tmp_path: Path, tiny_model_folder: Path, tiny_data_file: Path
) -> None:
    paths = Paths(tmp_path / "cache")
    sets = [f"model.path={tiny_model_folder}", f"data.path={tiny_data_file}"]
    prepare.prepare(paths, prepare.load_spec("demo", sets))
    assert prepare.choices(paths).models == ("SmolLM2-135M-Instruct", str(tiny_model_folder))


def test_the_first_preview_counts_the_steps_that_deepspeeds_schedule_needs(
    tmp_path: Path, tiny_model_folder: Path, tiny_data_file: Path
) -> None:
    paths = Paths(tmp_path / "cache")
    sets = [f"model.path={tiny_model_folder}", f"data.path={tiny_data_file}", "zero.stage=2", "data.max_length=128"]
    spec = prepare.load_spec("demo", [*sets, "zero.scheduler=WarmupDecayLR"])
    shown = prepare.plan(paths, spec)
    assert shown.ok and "problem.scheduler-conflict.later" in [problem.message_key for problem in shown.problems]
    assert not paths.root.exists() and "ds_z2_config.json" not in shown.files
    told: list[Progress] = []
    plan = prepare.prepare(paths, spec, on_progress=told.append)
    assert plan.tokens is not None and plan.resolved is not None and told
    params = json.loads(plan.files["ds_z2_config.json"])["scheduler"]["params"]
    assert params["total_num_steps"] == plan.resolved.steps and plan.resolved.steps
    assert "scheduler-conflict" not in [problem.code for problem in plan.problems]


def test_steps_that_stay_unknown_refuse_deepspeeds_schedule(
    tmp_path: Path, tiny_model_folder: Path, tiny_data_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = Paths(tmp_path / "cache")
    sets = [f"model.path={tiny_model_folder}", f"data.path={tiny_data_file}", "zero.stage=2"]
    monkeypatch.setattr(prepare, "of_spec", lambda *_, **__: None)
    with pytest.raises(Refused) as refused:
        prepare.prepare(paths, prepare.load_spec("demo", [*sets, "zero.scheduler=WarmupCosineLR"]))
    assert [p.message_key for p in refused.value.problems] == ["problem.scheduler-conflict.steps"]
    assert list_runs(paths) == ()
