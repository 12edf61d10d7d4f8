"""Pre-flight: one list, the plan's own problems in their places, and a start that is stopped by what has changed."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import make_run, popen
from tests.planning import facts as make
from zeroboard.contract.folders import FolderFacts
from zeroboard.contract.plan import Plan
from zeroboard.contract.reports import DoctorCheck
from zeroboard.contract.spec import RunSpec
from zeroboard.errors import Refused
from zeroboard.files import to_json, write_atomic
from zeroboard.messages import LANGUAGES, has, say
from zeroboard.paths import Paths
from zeroboard.planning.planner import make_plan
from zeroboard.runs import registry
from zeroboard.runs.registry import read_state
from zeroboard.services import preflight, prepare, runs

GOOD = {
    "shm_total": 8 << 30,
    "packages": {
        "torch": "2.13.0", "transformers": "5.24.0", "peft": "0.21.2", "accelerate": "1.15.0", "safetensors": "0.8.0",
        "deepspeed": "0.19.8",
    },
}  # fmt: skip


def planned(paths: Paths, folder: Path, *sets: str, host: Any = None, **model: Any) -> tuple[Plan, RunSpec]:
    spec = make.spec(*sets)
    plan = make_plan(
        spec, host=host or make.host(**GOOD), paths=paths, model=make.model(folder / "m", **model),
        data=make.data(folder / "d.jsonl"), tokens=None,
    )  # fmt: skip
    return plan, spec


def flown(paths: Paths, folder: Path, *sets: str, host: Any = None, **model: Any) -> dict[str, DoctorCheck]:
    """Name → check; of several of one name the first. Every sentence is there and filled, in both languages."""
    plan, spec = planned(paths, folder, *sets, host=host, **model)
    found = preflight.preflight(paths, plan, spec, host=host or make.host(**GOOD)).checks
    for check in found:
        for language in LANGUAGES:
            assert has(f"ui.checks.name.{check.name}", language), check.name
            assert "{" not in say(check.says, language, **check.params), check.says
            if check.verdict in ("warn", "fail"):
                assert has(check.remedy_key, language), check.remedy_key
    return {check.name: check for check in reversed(found)}


def test_a_good_plan_passes_every_check(paths: Paths, tmp_path: Path) -> None:
    found = flown(paths, tmp_path, "zero.stage=2")
    assert {name for name, check in found.items() if check.verdict in ("warn", "fail")} <= {"environment", "conflicts"}
    assert found["settings"].verdict == found["port"].verdict == found["model"].verdict == "pass"
    assert found["output"].says == "doctor.output.ok" and list(tmp_path.glob("**/.zeroboard-*")) == []


def test_what_stands_in_the_plans_way_comes_in_the_place_of_the_machines_line(paths: Paths, tmp_path: Path) -> None:
    small = make.host(2, disk_free=1 << 18, shm_total=64 << 20)
    found = flown(paths, tmp_path, "method.kind=full", "train.precision=fp16", host=small, has_template=False)
    assert (found["disk"].verdict, found["disk"].says) == ("fail", "problem.disk-space")
    assert (found["shm"].verdict, found["shm"].says) == ("warn", "problem.shm-too-small")
    assert (found["template"].verdict, found["template"].says) == ("warn", "problem.template-missing")
    assert flown(paths, tmp_path, "zero.offload=all")["settings"].says == "problem.offload-needs-stage"


def test_what_the_plan_does_not_need_is_left_aside(paths: Paths, tmp_path: Path) -> None:
    bare = make.host(compiler=None, **GOOD)
    plain = flown(paths, tmp_path, "zero.stage=2", host=bare)
    offload = flown(paths, tmp_path, "zero.stage=2", "zero.offload=optimizer", host=bare)
    assert plain["ops"].verdict == plain["compiler"].verdict == "skip"
    assert (offload["ops"].says, offload["compiler"].verdict) == ("problem.offload-toolchain", "warn")


def test_inherited_variables_are_told(paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_LAUNCH_BLOCKING", "TORCH_DISTRIBUTED_DEBUG", "NCCL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MASTER_PORT", "29500")
    taken = flown(paths, tmp_path)["environment"]
    assert taken.verdict == "pass" and "MASTER_PORT" in str(taken.params["names"])
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert flown(paths, tmp_path)["environment"].params == {"names": "CUDA_LAUNCH_BLOCKING"}


def test_a_place_to_meet_that_somebody_has_taken_is_refused(paths: Paths, tmp_path: Path) -> None:
    model, data = make.write_model(tmp_path / "m"), make.data(tmp_path / "d.jsonl")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        mapping = {"model": {"path": str(model)}, "data": {"path": data.path}}
        spec = prepare.checked({**mapping, "devices": {"nodes": 2, "rendezvous": place, "count": 1}})
        refused = prepare.plan(paths, spec)
        assert [p.code for p in refused.problems if p.severity == "error"] == ["port-in-use"] and not refused.ok
    assert prepare.plan(paths, spec).ok


def test_a_folder_that_takes_no_file_is_noticed_whatever_its_rights_say(tmp_path: Path) -> None:
    found = flown(Paths(Path("/proc/zeroboard")), tmp_path)["output"]
    assert (found.verdict, found.says) == ("fail", "problem.output-not-writable")


def test_a_start_is_stopped_by_a_disk_that_has_filled_since(paths: Paths) -> None:
    run = make_run(paths)
    plan = registry.read_plan(run).model_copy(update={"disk_bytes": 1 << 60})
    write_atomic(run.plan, to_json(plan.model_dump(mode="json")))
    with pytest.raises(Refused) as refused:
        runs.start(paths, run.id, popen=popen)
    assert [p.code for p in refused.value.problems] == ["disk-space"]
    assert read_state(run).state == "planned" and not run.supervisor_log.exists()


def test_a_start_is_stopped_by_a_folder_for_swapping_that_has_gone_or_filled_since(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = tmp_path / "fast"
    sets = ["zero.stage=3", "zero.offload=all", "zero.optimizer_device=nvme", "method.kind=full"]
    plan, spec = planned(paths, tmp_path, *sets, f"zero.nvme_path={fast}", parameters=10**7)

    def says(plan: Plan) -> set[str]:
        return {problem.message_key for problem in preflight.before_start(paths, plan, spec)}

    assert says(plan) == {"problem.nvme-path.missing"}
    fast.mkdir()
    assert not says(plan) & {"problem.nvme-path.missing", "problem.nvme-path.full"}
    assert plan.promise is not None
    more = plan.promise.model_copy(update={"nvme_bytes": 1 << 60})
    assert "problem.nvme-path.full" in says(plan.model_copy(update={"promise": more}))
    ranks = plan.batch.gpus
    need = (plan.promise.nvme_bytes + 4 * 10**7 // ranks) * ranks  # as the plan has it: with gradients of fp32
    for free, full in ((need, False), (need - 1, True)):
        facts = FolderFacts(path=str(fast), exists=True, writable=True, filesystem="ext4", free=free)
        monkeypatch.setattr(preflight, "folder_facts", lambda path, facts=facts: facts)
        assert ("problem.nvme-path.full" in says(plan)) is full


def test_whatever_fails_in_the_list_stops_a_start(paths: Paths, tmp_path: Path) -> None:
    plan, spec = planned(paths, tmp_path)
    assert preflight.before_start(paths, plan, spec) == ()
    closed = Paths(Path("/proc/zeroboard"))
    assert "output-not-writable" in [problem.code for problem in preflight.before_start(closed, plan, spec)]


def test_gpus_that_went_away_since_the_plan_are_named(paths: Paths, tmp_path: Path) -> None:
    plan, _ = planned(paths, tmp_path, host=make.host(2))
    assert preflight.moved(plan, make.host(2)) == ()
    (gone,) = preflight.moved(plan, make.host(1))
    assert gone.code == "gpu-unavailable" and gone.params["uuid"] == "GPU-1"
