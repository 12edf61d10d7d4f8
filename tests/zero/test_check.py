"""A user's DeepSpeed file, judged against the installed DeepSpeed; and DeepSpeed itself on what is judged good."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from zeroboard.contract.folders import FolderFacts
from zeroboard.contract.problems import Problem, errors
from zeroboard.contract.schema import Schema
from zeroboard.messages import LANGUAGES, has, say
from zeroboard.zero.check import check_file, swap_paths
from zeroboard.zero.normal import normalised
from zeroboard.zero.reading import read

CASES = Path("../shared/cases/configs")


def file(zero: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:
    """A good file of stage 2 with something in it."""
    whole: dict[str, Any] = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4}
    return {**whole, "zero_optimization": {"stage": 2, **(zero or {})}, **top}


def found(value: dict[str, Any], schema: Schema, **more: Any) -> dict[tuple[str, str | None], Problem]:
    """The problems by code and field; each has its sentences."""
    problems = check_file(value, schema, **more)
    for problem in problems:
        for language in LANGUAGES:
            for key in (problem.message_key, problem.remedy_key):
                assert has(key, language), key
                assert not re.search(r"\{\w+\}", say(key, language, **problem.params)), key
    return {(p.code, (p.field or "").removeprefix("zero_optimization.")): p for p in problems}


THREE = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}
ADAM = {"type": "AdamW", "params": {"lr": 1e-4}}


@pytest.mark.parametrize(
    ("value", "code", "field"),
    [
        (file({"stag": 2}), "unknown-key", "stag"),
        (file(nonsense_of_mine=1), "unknown-key", "nonsense_of_mine"),
        (file(stage3_prefetch_bucketsize=5), "unknown-key", "stage3_prefetch_bucketsize"),
        (file(offload_optimizer={"device": "cpu"}), "misplaced-key", "offload_optimizer"),
        (file(reduce_bucket_size=5), "misplaced-key", "reduce_bucket_size"),
        (file({"nvme_path": "/tmp"}), "misplaced-key", "nvme_path"),
        (file({"cpu_offload": True}), "deprecated-key", "cpu_offload"),
        (file({"cpu_offload_use_pin_memory": True}), "deprecated-key", "cpu_offload_use_pin_memory"),
        (file({"cpu_offload": True, "offload_optimizer": {"device": "cpu"}}), "deprecated-key", "cpu_offload"),
        (file({"mics_shard_size": 2}), "deprecated-key", "mics_shard_size"),
        (file(amp={"enabled": True}), "deprecated-key", "amp"),
        (file(bfloat16={"enabled": True}), "deprecated-key", "bfloat16"),
        ({**file(), "zero_optimization": True}, "deprecated-key", "zero_optimization"),
        (file({"stage": "2"}), "wrong-type", "stage"),
        (file({"stage": True}), "wrong-type", "stage"),
        (file({"stage": None}), "wrong-type", "stage"),
        (file({"overlap_comm": "yes"}), "wrong-type", "overlap_comm"),
        (file({"reduce_bucket_size": 1.5}), "wrong-type", "reduce_bucket_size"),
        (file({"offload_optimizer": "cpu"}), "wrong-type", "offload_optimizer"),
        (file({"offload_optimizer": {"device": 1}}), "wrong-type", "offload_optimizer.device"),
        ({**file(), "zero_optimization": [2]}, "wrong-type", "zero_optimization"),
        (file(optimizer={"type": "AdamW", "params": {"lr": "1e-4"}}), "wrong-type", "optimizer.params.lr"),
        (file({"stage": 4}), "value-range", "stage"),
        (file({"offload_optimizer": {"device": "disk"}}), "value-range", "offload_optimizer.device"),
        (file({"reduce_bucket_size": 0}), "value-range", "reduce_bucket_size"),
        (file({"allgather_bucket_size": 10**30}), "value-range", "allgather_bucket_size"),
        (file({"sub_group_size": 10**400}), "value-range", "sub_group_size"),
        (file({"sub_group_size": 1e400}), "value-range", "sub_group_size"),
        (file(gradient_clipping=-1), "value-range", "gradient_clipping"),
        (file(gradient_clipping=1e999), "value-range", "gradient_clipping"),
        (file(fp16={"enabled": True, "loss_scale_window": 0}), "value-range", "fp16.loss_scale_window"),
        (file(optimizer={"type": "AdamW", "params": {"betas": [0.9, 1]}}), "value-range", "optimizer.params.betas"),
        (file({"stage": "auto"}), "auto-unresolved", "stage"),
        (file({"sub_group_size": "auto"}), "auto-unresolved", "sub_group_size"),
        (file(train_batch_size=30), "batch-mismatch", "train_batch_size"),
        ({"zero_optimization": {"stage": 2}}, "batch-mismatch", "train_batch_size"),
        (file(bf16={"enabled": True}, fp16={"enabled": True}), "precision-conflict", "bf16.enabled"),
        (file({"stage": 0, "offload_optimizer": {"device": "cpu"}}), "offload-needs-stage", "offload_optimizer"),
        (file({"offload_optimizer": {"device": "nvme", "nvme_path": "/x"}}), "offload-needs-stage",
         "offload_optimizer.device"),
        (file({"offload_optimizer": {"device": "cpu", "ratio": 0.5}}), "offload-needs-stage",
         "offload_optimizer.ratio"),
        (file({"offload_param": {"device": "cpu"}}), "offload-needs-stage", "offload_param"),
        (file({**THREE, "offload_param": {"device": "cpu"}}), "offload-optimizer", "offload_param"),
        (file({"offload_optimizer": {"device": "cpu"}}, optimizer={"type": "Lamb"}), "offload-optimizer",
         "optimizer.type"),
        (file({"offload_optimizer": {"device": "cpu"}}, zero_force_ds_cpu_optimizer=False), "offload-optimizer",
         "zero_force_ds_cpu_optimizer"),
        (file(optimizer={"type": "Lamb"}), "optimizer-conflict", "optimizer.type"),
        (file(optimizer={"type": "AdmaW"}), "optimizer-conflict", "optimizer.type"),
        (file(optimizer={}), "optimizer-conflict", "optimizer.type"),
        (file(optimizer={"type": "AdamW", "params": {"max_grad_norm": 1}}), "optimizer-conflict",
         "optimizer.params.max_grad_norm"),
        (file(optimizer={"type": "AdamW", "params": {"beta": [0.9, 0.99]}}), "unknown-key", "optimizer.params.beta"),
        (file(optimizer=ADAM), "scheduler-conflict", "optimizer"),
        (file(scheduler={"type": "Cosine"}), "scheduler-conflict", "scheduler.type"),
        (file(scheduler={}), "scheduler-conflict", "scheduler.type"),
        (file(scheduler={"type": "WarmupDecayLR", "params": {}}), "scheduler-conflict",
         "scheduler.params.total_num_steps"),
        (file(scheduler={"type": "WarmupLR", "params": {"cos_min_ratio": 0.1}}), "scheduler-conflict",
         "scheduler.params.cos_min_ratio"),
        (file(scheduler={"type": "WarmupLR", "params": {"warmup_max_lr": 1e-3}}, optimizer=ADAM), "scheduler-conflict",
         "scheduler.params.warmup_max_lr"),
        (file(scheduler={"type": "WarmupDecayLR", "params": {"total_num_steps": 5, "warmup_num_steps": 9}}),
         "scheduler-conflict", "scheduler.params.warmup_num_steps"),
        (file({"stage": 3}), "gather-disabled", "stage3_gather_16bit_weights_on_model_save"),
        (file(activation_checkpointing={"partition_activations": True}), "ignored-choice", "activation_checkpointing"),
        (file(aio={"block_size": 1048576}), "ignored-choice", "aio"),
        (file({"stage3_max_live_parameters": 5}), "ignored-choice", "stage3_max_live_parameters"),
        (file({**THREE, "round_robin_gradients": True}), "ignored-choice", "round_robin_gradients"),
        (file({"allgather_partitions": False}), "ignored-choice", "allgather_partitions"),
        (file({"offload_optimizer": {"device": "cpu", "nvme_path": "/x"}}), "ignored-choice",
         "offload_optimizer.nvme_path"),
        (file(tensorboard={"output_path": "/usr/lib/x"}), "unsafe-path", "tensorboard.output_path"),
        (file({**THREE, "offload_optimizer": {"device": "nvme"}}), "nvme-path", "offload_optimizer.nvme_path"),
        (file({**THREE, "offload_optimizer": {"device": "nvme", "nvme_path": "/tmp/../etc"}}), "unsafe-path",
         "offload_optimizer.nvme_path"),
    ],
)  # fmt: skip
def test_each_fault_is_named_with_its_field(value: dict[str, Any], code: str, field: str, schema: Schema) -> None:
    assert (code, field) in found(value, schema)


@pytest.mark.parametrize(
    "value",
    [
        file(),
        file(THREE),
        file({**THREE, "offload_optimizer": {"device": "cpu", "ratio": 0.5}, "offload_param": {"device": "cpu"}}),
        file({"offload_optimizer": {"device": "none"}, "offload_param": None}),
        file({"reduce_bucket_size": 5e8, "allgather_bucket_size": 2e8}),
        file(optimizer=ADAM, scheduler={"type": "WarmupLR", "params": {"warmup_max_lr": 1e-4, "warmup_num_steps": 5}}),
        file(optimizer={"type": "Lamb"}, zero_allow_untested_optimizer=True),
        file(data_types={"keep_in_fp32_modules": "auto"}),
        file(train_batch_size=64),
    ],
)
def test_a_good_file_has_no_error_and_deepspeed_takes_it(value: dict[str, Any], schema: Schema) -> None:
    from deepspeed.runtime.config import DeepSpeedConfig

    assert not errors(check_file(value, schema))
    taken = {key: one for key, one in normalised(value, schema).items() if key != "train_batch_size"}
    read_back = DeepSpeedConfig({**taken, "train_batch_size": 8})
    assert read_back.zero_config.stage == value["zero_optimization"]["stage"]


def test_everything_is_told_at_once_and_errors_first(schema: Schema) -> None:
    value = file(
        {"cpu_offload": True, "stage": 7, "oops": 1}, gradient_clipping="1", bf16={"enabled": 1}, steps_per_print=0
    )
    problems = check_file(value, schema)
    assert len({p.field for p in problems}) == 6
    assert [p.severity for p in problems] == sorted((p.severity for p in problems), key=["error", "warning"].index)


def test_normalising_writes_whole_numbers_and_new_names_and_keeps_the_rest(schema: Schema) -> None:
    value = file(
        {"stage": 2.0, "reduce_bucket_size": 5e8, "cpu_offload": True, "stage3_gather_fp16_weights_on_model_save": True}
    )
    plain = normalised(value, schema)["zero_optimization"]
    assert json.dumps(plain) == json.dumps(
        {
            "stage": 2,
            "reduce_bucket_size": 500_000_000,
            "offload_optimizer": {"device": "cpu"},
            "stage3_gather_16bit_weights_on_model_save": True,
        }
    )
    assert normalised({"a": 1.0, "gradient_clipping": 1.0}, schema) == {"a": 1.0, "gradient_clipping": 1.0}


def test_the_folder_that_is_swapped_to_has_to_be_there_writable_on_a_disk(schema: Schema) -> None:
    value = file({**THREE, "offload_optimizer": {"device": "nvme", "nvme_path": "/fast"}})
    assert swap_paths(value) == ("/fast",)

    def says(**facts: Any) -> set[str]:
        folders = {"/fast": FolderFacts(path="/fast", **facts)}
        return {str(p.says) for p in check_file(value, schema, folders) if p.code == "nvme-path"}

    assert says(exists=True, writable=True, filesystem="ext4", free=1 << 40) == set()
    assert says(exists=False) == {"problem.nvme-path.missing"}
    buffered = says(exists=True, writable=True, filesystem="fuse", direct=False)
    assert buffered == {"problem.nvme-path.buffered"} and has("problem.nvme-path.buffered", "zh-CN")
    assert says(exists=True, filesystem="tmpfs") == {"problem.nvme-path.memory", "problem.nvme-path.closed"}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"zero_optimization": {}},
        {"optimizer": [], "scheduler": 3, "fp16": "on"},
        {"a" * 5000: {"b": [None]}},
        {"zero_optimization": {"offload_param": []}},
    ],
)
def test_odd_shapes_are_problems_and_no_exception(value: dict[str, Any], schema: Schema) -> None:
    problems = check_file(value, schema)
    assert problems and all(p.params for p in problems)
    json.dumps(normalised(value, schema))


@pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not here")
def test_the_shared_cases_are_judged_as_they_ask(schema: Schema) -> None:
    checked = 0
    for case in sorted(CASES.iterdir()):
        source = case / "ds.json"
        if not source.is_file():
            continue
        expected = json.loads((case / "expected.json").read_text())
        got = read(source.read_bytes())
        problems = [*got.problems, *(check_file(got.value, schema) if got.value is not None else ())]
        refused = got.value is None or bool(errors(problems))
        allowed = expected["exit"] if isinstance(expected["exit"], list) else [expected["exit"]]
        assert int(refused) in allowed, (case.name, problems)
        checked += 1
    assert checked > 40
