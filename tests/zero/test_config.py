"""The DeepSpeed file: what stands in it, and that DeepSpeed itself reads it so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from zeroboard.contract.plan import Batch, Dtype
from zeroboard.contract.schema import Schema
from zeroboard.contract.spec import Offload, Stage, TrainSpec, ZeroSpec
from zeroboard.zero.check import check_file
from zeroboard.zero.config import (
    DEFAULT_BUCKET,
    Schedule,
    Sizes,
    bucket,
    config_name,
    deepspeed_config,
    persistence_threshold,
    swap_buffer,
)
from zeroboard.zero.normal import normalised

GOOD: list[tuple[Stage, Offload]] = [
    ("1", "none"),
    ("1", "optimizer"),
    ("2", "none"),
    ("2", "optimizer"),
    ("3", "none"),
    ("3", "optimizer"),
    ("3", "all"),
]
SIZES = Sizes(parameters=137_000_001, trainable=2_442_241, hidden=576)


def made(stage: Stage, offload: Offload, *, sizes: Sizes = SIZES, dtype: Dtype = "fp32", **more: Any) -> dict[str, Any]:
    batch = more.pop("batch", Batch(micro=2, accumulation=4, gpus=2))
    told = {name: more.pop(name) for name in ("schedule", "swap", "gpu") if name in more}
    train = TrainSpec.model_validate(more.pop("train", {}))
    zero = ZeroSpec.model_validate({"stage": stage, "offload": offload} | more)
    return deepspeed_config(zero, train, batch=batch, dtype=dtype, sizes=sizes, **told)


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    return [value]


def test_files_have_the_names_that_users_know() -> None:
    assert config_name("none", "none") is None
    assert config_name("1", "none") == "ds_z1_config.json"
    assert config_name("2", "optimizer") == "ds_z2_offload_config.json"
    assert config_name("3", "none") == "ds_z3_config.json"
    assert config_name("3", "all") == config_name("3", "optimizer") == "ds_z3_offload_config.json"


@pytest.mark.parametrize(("stage", "offload"), GOOD)
def test_no_value_is_left_open(stage: Stage, offload: Offload) -> None:
    config = made(stage, offload)
    assert "auto" not in leaves(config) and None not in leaves(config)
    assert "optimizer" not in config and "scheduler" not in config
    numbers = [value for key, value in config["zero_optimization"].items() if key.endswith(("size", "distance"))]
    assert numbers and all(type(number) is int for number in numbers)


def test_micro_batch_accumulation_and_ranks_multiply_to_the_train_batch() -> None:
    config = made("2", "none", batch=Batch(micro=3, accumulation=5, gpus=7))
    assert config["train_batch_size"] == 105
    assert config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"] * 7 == 105


@pytest.mark.parametrize(("stage", "offload"), GOOD)
@pytest.mark.parametrize("trainable", [1, 2, 999, 10**12])
def test_nothing_is_larger_than_the_model(stage: Stage, offload: Offload, trainable: int) -> None:
    sizes = Sizes(parameters=trainable * 2, trainable=trainable, hidden=64)
    zero = made(stage, offload, sizes=sizes)["zero_optimization"]
    for key, value in zero.items():
        if key.endswith("bucket_size") and "prefetch" not in key:
            assert value <= max(trainable, 2) and value % 2 == 0, key
        elif key.startswith("stage3_") and type(value) is int:
            assert value <= trainable * 2, key


def test_a_bucket_is_chosen_cut_and_even() -> None:
    assert bucket(None) == DEFAULT_BUCKET
    assert bucket(1000, 501) == 500
    assert bucket(1000, 5000) == 1000
    assert bucket(1, None) == 2


def test_sizes_that_are_not_known_become_deepspeeds_own_defaults() -> None:
    zero = made("3", "none", sizes=Sizes(parameters=None, trainable=None, hidden=None))["zero_optimization"]
    assert zero["stage3_prefetch_bucket_size"] == 50_000_000
    assert zero["stage3_param_persistence_threshold"] == persistence_threshold(None) == 100_000
    assert zero["stage3_max_live_parameters"] == 10**9


def test_communication_overlaps_only_when_chosen() -> None:
    assert made("3", "none")["zero_optimization"]["overlap_comm"] is False
    assert made("2", "none", overlap_comm=True)["zero_optimization"]["overlap_comm"] is True


def test_offload_forces_deepspeeds_own_cpu_optimizer() -> None:
    assert made("2", "optimizer")["zero_force_ds_cpu_optimizer"] is True
    assert "zero_force_ds_cpu_optimizer" not in made("2", "none")
    assert "offload_param" not in made("3", "optimizer")["zero_optimization"]
    assert made("3", "all", gpu=True)["zero_optimization"]["offload_param"] == {
        "device": "cpu",
        "pin_memory": True,
    }


@pytest.mark.parametrize("stage", ["1", "2"])
def test_parameters_are_not_offloaded_below_stage_3(stage: Stage) -> None:
    with pytest.raises(ValueError, match="no DeepSpeed file"):
        made(stage, "all")


def test_exactly_one_precision_is_on() -> None:
    for dtype, on in (("bf16", (True, False)), ("fp16", (False, True)), ("fp32", (False, False))):
        config = made("2", "none", dtype=dtype)  # type: ignore[arg-type]
        assert (config["bf16"]["enabled"], config["fp16"]["enabled"]) == on


EVERYTHING: dict[str, Any] = {
    "overlap_comm": True,
    "bucket_size": 1000,
    "reduce_scatter": False,
    "contiguous_gradients": False,
    "prefetch_bucket_size": 11,
    "max_live_parameters": 22,
    "max_reuse_distance": 33,
    "persistence_threshold": 44,
    "sub_group_size": 55,
    "gather_on_save": False,
    "pin_memory": "on",
}


def test_what_was_chosen_stands_in_the_file() -> None:
    zero = made("3", "optimizer", ratio=0.25, **EVERYTHING)["zero_optimization"]
    assert zero == {
        "stage": 3,
        "overlap_comm": True,
        "contiguous_gradients": False,
        "reduce_scatter": False,
        "reduce_bucket_size": 1000,
        "sub_group_size": 55,
        "stage3_prefetch_bucket_size": 11,
        "stage3_param_persistence_threshold": 44,
        "stage3_max_live_parameters": 22,
        "stage3_max_reuse_distance": 33,
        "stage3_gather_16bit_weights_on_model_save": False,
        "offload_optimizer": {"device": "cpu", "pin_memory": True, "ratio": 0.25},
    }
    one = made("1", "optimizer", allgather_bucket_size=500, round_robin_gradients=True)["zero_optimization"]
    assert (one["allgather_bucket_size"], one["round_robin_gradients"], one["reduce_bucket_size"]) == (
        500,
        True,
        2442240,
    )


def test_what_is_swapped_to_a_disk_goes_to_the_folder_through_buffers_that_hold_the_largest_part() -> None:
    sizes = Sizes(parameters=10_000_000, trainable=10_000_000, hidden=64, largest=3_000_001)
    more = {"optimizer_device": "nvme", "param_device": "nvme", "aio_block_size": 8192, "param_buffers": 7}
    config = made("3", "all", sizes=sizes, swap="/fast/run", **more)
    zero = config["zero_optimization"]
    assert zero["offload_optimizer"] == {
        "device": "nvme", "pin_memory": False, "nvme_path": "/fast/run", "buffer_count": 4,
    }  # fmt: skip
    assert zero["offload_param"]["buffer_size"] == swap_buffer(3_000_001, 2) >= 1_500_001
    assert (zero["offload_param"]["buffer_count"], zero["offload_param"]["max_in_cpu"]) == (7, 0)
    assert config["aio"]["block_size"] == 8192 and "aio" not in made("3", "all")
    with pytest.raises(ValueError, match="folder"):
        made("3", "all", **more)


def test_fp16_is_scaled_as_chosen() -> None:
    more = {"loss_scale_power": 9, "loss_scale_window": 7, "hysteresis": 3, "min_loss_scale": 2}
    assert made("2", "none", dtype="fp16", **more)["fp16"] == {
        "enabled": True, "auto_cast": False, "loss_scale": 0, "initial_scale_power": 9, "loss_scale_window": 7,
        "hysteresis": 3, "min_loss_scale": 2,
    }  # fmt: skip
    assert made("2", "none", dtype="fp16", loss_scale=128)["fp16"]["loss_scale"] == 128


TRAIN = {"learning_rate": 0.001, "adam_beta1": 0.8, "adam_beta2": 0.9, "adam_epsilon": 1e-6, "weight_decay": 0.1}


def test_deepspeeds_own_optimizer_and_schedules_are_written_when_chosen() -> None:
    counted = Schedule(total=20, warmup=3)
    config = made("2", "none", train=TRAIN, optimizer="deepspeed", scheduler="WarmupDecayLR", schedule=counted,
                  warmup_min_ratio=0.1, warmup_curve="linear")  # fmt: skip
    params = {"lr": 0.001, "betas": [0.8, 0.9], "eps": 1e-6, "weight_decay": 0.1}
    assert config["optimizer"] == {"type": "AdamW", "params": params}
    rise = {"warmup_num_steps": 3, "warmup_type": "linear"}
    assert config["scheduler"]["params"] == {
        **rise, "warmup_min_lr": 0.0001, "warmup_max_lr": 0.001, "total_num_steps": 20,
    }  # fmt: skip
    cosine = made("2", "none", scheduler="WarmupCosineLR", schedule=counted, cosine_min_ratio=0.2)["scheduler"]
    assert cosine["params"] == {
        "warmup_num_steps": 3, "warmup_type": "log", "warmup_min_ratio": 0.0, "cos_min_ratio": 0.2,
        "total_num_steps": 20,
    }  # fmt: skip
    assert "total_num_steps" not in made("2", "none", scheduler="WarmupLR", schedule=counted)["scheduler"]["params"]
    with pytest.raises(ValueError, match="steps"):
        made("2", "none", scheduler="WarmupLR")


def test_no_file_of_ours_has_a_fault(schema: Schema) -> None:
    counted = Schedule(total=20, warmup=3)
    files = [made(stage, offload) for stage, offload in GOOD]
    files += [
        made("3", "optimizer", ratio=0.5, **{**EVERYTHING, "gather_on_save": True}),
        made("3", "all", optimizer_device="nvme", param_device="nvme", swap="/fast/run"),
        made("2", "none", optimizer="deepspeed", scheduler="WarmupCosineLR", schedule=counted, train=TRAIN),
        made("1", "optimizer", optimizer="deepspeed", scheduler="WarmupLR", schedule=counted, train=TRAIN),
    ]
    for file in files:
        assert check_file(file, schema) == (), file
        assert normalised(file, schema) == file


def test_deepspeed_itself_reads_every_file_as_it_is_meant() -> None:
    alone = Batch(micro=2, accumulation=4, gpus=1)  # DeepSpeed counts the ranks, and here it is alone
    dtypes: tuple[Dtype, ...] = ("bf16", "fp16", "fp32")
    wanted = [(stage, offload, dtype) for stage, offload in GOOD for dtype in dtypes]
    files = [made(stage, offload, dtype=dtype, batch=alone) for stage, offload, dtype in wanted]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("deepspeed_reads.py"))],
        input=json.dumps(files),
        capture_output=True,
        text=True,
        env={**os.environ, "DS_ACCELERATOR": "cpu"},
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = json.loads(done.stdout[done.stdout.index("[{") :])
    for (stage, offload, dtype), file, answer in zip(wanted, files, answers, strict=True):
        assert answer["stage"] == int(stage)
        assert answer["train_batch_size"] == 8
        assert answer["gradient_clipping"] == 1.0
        assert (answer["bf16"], answer["fp16"]) == (dtype == "bf16", dtype == "fp16")
        assert answer["overlap_comm"] is False
        assert answer["reduce_bucket_size"] == file["zero_optimization"]["reduce_bucket_size"]
        assert answer["offload_optimizer"] == (None if offload == "none" else "cpu")
        assert answer["offload_param"] == ("cpu" if offload == "all" else None)
        assert answer["force_cpu_optimizer"] is True
        if stage == "3":
            assert answer["gather"] is True and answer["persistence"] == 5760
