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
from zeroboard.contract.spec import Offload, Stage
from zeroboard.zero.config import (
    DEFAULT_BUCKET,
    Sizes,
    bucket,
    config_name,
    deepspeed_config,
    persistence_threshold,
)

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
    return deepspeed_config(
        stage=stage, offload=offload, batch=batch, dtype=dtype, max_grad_norm=1.0, sizes=sizes, **more
    )


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
    assert made("3", "all", pin_memory=True)["zero_optimization"]["offload_param"] == {
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
