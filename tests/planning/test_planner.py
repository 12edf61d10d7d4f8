"""The plan: what is decided, that it is complete, and that it is the same each time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.planning import facts as make
from zeroboard.contract.plan import Plan, hash_files, plan_json
from zeroboard.files import to_json
from zeroboard.messages import LANGUAGES, has, say
from zeroboard.paths import Paths
from zeroboard.planning.planner import SCRUBBED, make_plan
from zeroboard.planning.specs import read_spec
from zeroboard.planning.tokens import tokens_key
from zeroboard.zero.promise import lora_parameters

RUN = "20261129-211004-tiny-z2-7f3a"


def plan_of(tmp_path: Path, *sets: str, **other: Any) -> Plan:
    given: dict[str, Any] = {
        "host": make.host(),
        "paths": Paths(tmp_path / "cache"),
        "model": make.model(tmp_path / "m"),
        "data": make.data(tmp_path / "d.jsonl"),
        "tokens": make.tokens(),
        "python": "/python",
    }
    return make_plan(make.spec(*sets), **(given | other))


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    sets = ("zero.stage=2", "zero.offload=optimizer")
    first, second = (to_json(plan_json(plan_of(tmp_path, *sets, run_id=RUN))) for _ in range(2))
    assert first == second
    assert plan_of(tmp_path, *sets).files_hash == plan_of(tmp_path, *sets, run_id=RUN).files_hash


def test_a_plan_reads_back_from_its_own_json(tmp_path: Path) -> None:
    for gpus in (0, 2):
        plan = plan_of(tmp_path, "zero.stage=3", run_id=RUN, host=make.host(gpus))
        assert Plan.model_validate_json(to_json(plan_json(plan))) == plan


def test_making_a_plan_writes_nothing(tmp_path: Path) -> None:
    plan_of(tmp_path, "zero.stage=3", run_id=RUN)
    assert not (tmp_path / "cache").exists()


def test_the_command_is_torchrun_through_the_running_interpreter(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, run_id=RUN)
    assert plan.folder == str(tmp_path / "cache" / "runs" / RUN)
    assert plan.argv[:3] == ("/python", "-m", "torch.distributed.run")
    assert plan.argv[plan.argv.index("--nproc-per-node") + 1] == "2"
    assert plan.argv[-4:] == ("--module", "zeroboard.engine", "train", plan.folder)
    assert plan_of(tmp_path).argv[-1].endswith("/runs/<run>")


def test_torchrun_understands_the_command(tmp_path: Path) -> None:
    from torch.distributed.run import parse_args

    plan = plan_of(tmp_path, run_id=RUN)
    args = parse_args(list(plan.argv[3:]))
    assert (args.standalone, args.nproc_per_node, args.module) == (True, "2", True)
    assert args.training_script == "zeroboard.engine" and args.training_script_args == ["train", plan.folder]
    assert args.local_addr == "127.0.0.1"


def test_the_environment_names_the_devices_and_no_hub(tmp_path: Path) -> None:
    cpu = plan_of(tmp_path, run_id=RUN).env
    assert cpu["DS_ACCELERATOR"] == "cpu" and cpu["CUDA_VISIBLE_DEVICES"] == ""
    assert cpu["ZEROBOARD_RUN"] == RUN and cpu["HF_HUB_OFFLINE"] == "1" and cpu["OMP_NUM_THREADS"] == "1"
    cuda = plan_of(tmp_path, "devices.gpus=[GPU-2, GPU-0]", host=make.host(4, cpu_count=16)).env
    assert cuda["CUDA_VISIBLE_DEVICES"] == "GPU-2,GPU-0" and cuda["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert "DS_ACCELERATOR" not in cuda and cuda["OMP_NUM_THREADS"] == "8"


def test_inherited_variables_that_change_a_run_are_taken_away(tmp_path: Path) -> None:
    assert plan_of(tmp_path).scrubbed == SCRUBBED
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES", "ZEROBOARD_AUTH"):
        assert name in SCRUBBED


def test_the_files_are_the_spec_and_the_known_deepspeed_file(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "zero.stage=2", "zero.offload=optimizer", "train.micro_batch=3")
    assert list(plan.files) == ["spec.yaml", "ds_z2_offload_config.json"]
    assert plan.resolved is not None and plan.resolved.deepspeed_config == "ds_z2_offload_config.json"
    config = json.loads(plan.files["ds_z2_offload_config.json"])
    assert config["train_batch_size"] == plan.batch.total == 3 * 4 * 2
    assert config["zero_optimization"]["offload_optimizer"] == {"device": "cpu", "pin_memory": False}
    assert plan.files_hash == hash_files(plan.files)
    (tmp_path / "spec.yaml").write_text(plan.files["spec.yaml"])
    assert read_spec(tmp_path / "spec.yaml")[0] == make.spec(
        "zero.stage=2", "zero.offload=optimizer", "train.micro_batch=3"
    )
    assert list(plan_of(tmp_path).files) == ["spec.yaml"]


def test_batch_and_global_batch_are_told(tmp_path: Path) -> None:
    assert plan_json(plan_of(tmp_path))["batch"] == {"micro": 2, "accumulation": 4, "gpus": 2, "global": 16}


def test_steps_are_known_once_the_data_is_tokenised(tmp_path: Path) -> None:
    known = plan_of(tmp_path)
    assert known.resolved is not None and known.resolved.steps == 6
    unknown = plan_of(tmp_path, tokens=None)
    assert unknown.resolved is not None and unknown.resolved.steps is None
    assert "decision.steps.unknown" in {d.says for d in unknown.decisions}


def test_the_tokens_key_of_the_plan_is_that_of_the_room(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "data.max_length=77")
    assert plan.resolved is not None
    assert plan.resolved.tokens_key == tokens_key(tmp_path / "d.jsonl", make.model(tmp_path / "m"), 77)


def test_the_promise_counts_what_is_trained_and_what_stays_whole(tmp_path: Path) -> None:
    model = make.model(tmp_path / "m")
    assert model.parameters is not None
    full = plan_of(tmp_path, "method.kind=full", "zero.stage=2").promise
    assert full is not None
    assert (full.parameter_bytes, full.optimizer_bytes) == (model.parameters * 4, model.parameters * 6)
    trained = lora_parameters(model.linear_shapes, 8, "all-linear")
    lora = plan_of(tmp_path, "zero.stage=3").promise
    assert lora is not None and lora.optimizer_bytes == trained * 6
    small = 64 * 5 + 2 * sum(8 * n for n in (64, 64, 64, 32, 64, 32, 64, 64)) + 2 * 3 * 8 * 64
    assert lora.parameter_bytes == ((model.parameters + trained) // 2 + small) * 4
    none = plan_of(tmp_path, model=model.model_copy(update={"parameters": None, "linear_shapes": {}}))
    assert none.ok and none.promise is None


def test_every_choice_has_its_reason_in_every_language(tmp_path: Path) -> None:
    plans = [
        plan_of(tmp_path, "zero.stage=2"),
        plan_of(tmp_path, "zero.stage=2", "zero.bucket_size=1001", tokens=None, host=make.host(2)),
        plan_of(tmp_path, "devices.gpus=[GPU-0, GPU-1]", "devices.count=1", host=make.host(2)),
        plan_of(tmp_path, "devices.count=1", host=make.host(2)),
        plan_of(tmp_path, tokens=make.tokens(template="chatml")),
    ]
    assert {d.field for d in plans[0].decisions} >= {
        "devices",
        "devices.count",
        "threads",
        "train.precision",
        "template",
        "train.warmup_ratio",
        "train.save_every",
        "zero.bucket_size",
    }
    for decision in (d for plan in plans for d in plan.decisions):
        for language in LANGUAGES:
            assert has(decision.says, language), decision.says
            assert "{" not in say(decision.says, language, **decision.params), decision.says


def test_what_a_person_chose_is_no_automatic_choice(tmp_path: Path) -> None:
    chosen = plan_of(
        tmp_path,
        "train.precision=fp32",
        "devices.count=2",
        "train.save_every=3",
        "zero.stage=1",
        "zero.bucket_size=100",
    )
    fields = {d.field for d in chosen.decisions}
    assert not fields & {"train.precision", "devices.count", "train.save_every", "zero.bucket_size"}


@pytest.mark.parametrize(("cores", "ranks", "threads"), [(1, 1, 1), (2, 2, 1), (16, 2, 8), (0, 1, 1)])
def test_the_cores_are_shared_by_the_ranks(tmp_path: Path, cores: int, ranks: int, threads: int) -> None:
    plan = plan_of(tmp_path, host=make.host(cpu_count=cores))
    assert plan.resolved is not None and (plan.batch.gpus, plan.resolved.threads) == (ranks, threads)


def test_a_missing_model_or_data_is_named_once(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, model=None, data=None)
    assert [(p.code, p.field) for p in plan.problems] == [
        ("model-missing", "model.path"),
        ("data-missing", "data.path"),
    ]
    again = plan_of(tmp_path, model=None, data=None, problems=plan.problems)
    assert again.problems == plan.problems and not again.ok and again.resolved is None
