"""A brought file taken over: what our own files say comes back as the very spec, and nothing is passed over."""

from __future__ import annotations

from typing import Any

import pytest

from zeroboard.contract.plan import Batch, Dtype
from zeroboard.contract.problems import errors
from zeroboard.contract.schema import Schema
from zeroboard.contract.spec import RunSpec, TrainSpec, ZeroSpec, fields
from zeroboard.messages import has
from zeroboard.zero.adopt import ALIASES, DIRECT, PRINTED, SAME, TOGETHER, adopt
from zeroboard.zero.config import Schedule, Sizes, deepspeed_config

SIZES = Sizes(parameters=10**9, trainable=10**9, hidden=64, largest=10**6)
NVME = {"optimizer_device": "nvme", "param_device": "nvme", "nvme_path": "/fast", "aio_queue_depth": 16}
THREE = {"prefetch_bucket_size": 11, "max_live_parameters": 22, "max_reuse_distance": 33, "persistence_threshold": 44,
         "sub_group_size": 55, "gather_on_save": False}  # fmt: skip


def spec_of(values: dict[str, Any]) -> RunSpec:
    whole: dict[str, Any] = {"model": {"path": "m"}, "data": {"path": "d"}}
    for key, value in values.items():
        section, _, name = key.partition(".")
        whole.setdefault(section, {})[name] = value
    return RunSpec.model_validate(whole)


@pytest.mark.parametrize(
    ("zero", "train", "dtype"),
    [
        ({"stage": "1", "allgather_bucket_size": 400, "round_robin_gradients": True, "bucket_size": 200}, {}, "bf16"),
        ({"stage": "2", "overlap_comm": True, "reduce_scatter": False, "contiguous_gradients": False}, {}, "fp32"),
        ({"stage": "2", "loss_scale_power": 9, "hysteresis": 3, "min_loss_scale": 2}, {"max_grad_norm": 0.5}, "fp16"),
        ({"stage": "2", "offload": "optimizer", "pin_memory": "on"}, {"micro_batch": 3, "accumulation": 5}, "fp32"),
        ({"stage": "3", "offload": "all", "ratio": 0.5, **THREE}, {}, "fp32"),
        ({"stage": "3", "offload": "all", **NVME, "param_buffers": 9, "param_buffer_size": 12345}, {}, "bf16"),
        ({"stage": "2", "optimizer": "deepspeed", "scheduler": "WarmupDecayLR", "warmup_min_ratio": 0.5},
         {"learning_rate": 0.001, "adam_beta1": 0.8, "adam_epsilon": 1e-6, "weight_decay": 0.1, "warmup_steps": 3,
          "max_steps": 20}, "fp32"),
        ({"stage": "2", "scheduler": "WarmupCosineLR", "cosine_min_ratio": 0.1}, {"max_steps": 20, "warmup_steps": 1},
         "fp32"),
    ],
)  # fmt: skip
def test_our_own_files_come_back_as_the_choices_that_made_them(
    zero: dict[str, Any], train: dict[str, Any], dtype: Dtype, schema: Schema
) -> None:
    """And the file that is made from them again is the same."""
    wanted, trained = ZeroSpec.model_validate(zero), TrainSpec.model_validate(train)
    batch = Batch(micro=trained.micro_batch, accumulation=trained.accumulation, gpus=2)
    counted = Schedule(total=20, warmup=trained.warmup_steps or 1)

    def made(zero: ZeroSpec, train: TrainSpec) -> dict[str, Any]:
        return deepspeed_config(zero, train, batch=batch, dtype=dtype, sizes=SIZES, schedule=counted, swap="/fast")

    file = made(wanted, trained)
    taken = adopt(file, schema, ranks=2)
    assert not errors(taken.problems)
    assert {p.field for p in taken.problems} <= {"wall_clock_breakdown"}
    spec = spec_of(taken.values)
    assert made(spec.zero, spec.train) == file
    assert spec.train.precision == dtype
    for name, value in zero.items():
        assert getattr(spec.zero, name) == value, name


def test_auto_goes_back_to_what_zeroboard_chooses(schema: Schema) -> None:
    file = {
        "train_micro_batch_size_per_gpu": "auto",
        "bf16": {"enabled": "auto"},
        "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto"},
    }
    taken = adopt(file, schema)
    assert not taken.problems
    spec = spec_of(taken.values)
    assert spec.train.precision == "auto" and spec.train.micro_batch == TrainSpec().micro_batch
    assert spec.zero.bucket_size is None and spec.zero.prefetch_bucket_size is None


def test_a_key_under_its_other_name_means_the_same(schema: Schema) -> None:
    for name in ALIASES:
        given: Any = True if name.startswith("gather") else 7
        one = adopt({"zero_optimization": {"stage": 3, name: given}}, schema).values
        assert one == adopt({"zero_optimization": {"stage": 3, f"stage3_{name}": given}}, schema).values
        assert given in one.values()


def test_what_would_change_the_training_and_has_no_field_is_refused_and_the_rest_is_told(schema: Schema) -> None:
    file = {
        "steps_per_print": 5,
        "tensorboard": {"enabled": True, "output_path": "x"},
        "prescale_gradients": True,
        "optimizer": {"type": "AdamW", "params": {"amsgrad": True}},
        "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 2, "offload_optimizer": {"device": "none"}},
    }
    taken = adopt(file, schema)
    told = {p.field: p.severity for p in taken.problems}
    assert told == {
        "steps_per_print": "warning",
        "tensorboard": "warning",
        "prescale_gradients": "error",
        "optimizer.params.amsgrad": "error",
        "zero_optimization.zero_hpz_partition_size": "error",
    }
    assert all(p.code == "ignored-choice" and has(p.message_key) for p in taken.problems)
    assert taken.values["zero.offload"] == "none"


def test_every_key_of_deepspeed_is_taken_over_the_same_told_or_refused(schema: Schema) -> None:
    """None is passed over in silence: each, with a value that is not its default, changes fields or is named."""
    base = {"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 2}
    plain = adopt(base, schema)
    silent = set()
    for path, facts in schema.keys.items():
        last = path.split(".")[-1]
        if facts.kind in ("object", "any") or facts.deprecated or path.startswith("zero_optimization.offload"):
            continue
        given: Any = {"switch": True, "integer": 3, "number": 0.5, "text": facts.choices[-1] if facts.choices else "x",
                      "list": []}[facts.kind]  # fmt: skip
        if path in SAME and given in SAME[path]:
            given = not given
        file: dict[str, Any] = {**base}
        place = file
        for part in path.split(".")[:-1]:
            place[part] = dict(place.get(part, {}))
            place = place[part]
        place[last] = given
        taken = adopt(file, schema, ranks=1)
        if taken.values == plain.values and not taken.problems:
            silent.add(path)
    # the stage that it is already, what stage 3 does not heed (the check tells that), and what has no other value
    assert silent == {"zero_optimization.stage", "zero_optimization.allgather_bucket_size",
                      "zero_optimization.round_robin_gradients", "zero_optimization.allgather_partitions",
                      "zero_allow_untested_optimizer"}  # fmt: skip


@pytest.mark.parametrize(
    ("batch", "ranks", "values"),
    [
        ({"train_batch_size": 32}, 4, (8, 1)),
        ({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2}, 4, (2, 4)),
        ({"train_batch_size": 32, "gradient_accumulation_steps": 2}, 4, (4, 2)),
        ({"train_batch_size": 32}, None, (None, None)),
    ],
)
def test_the_train_batch_is_split_over_the_ranks(
    batch: dict[str, Any], ranks: int | None, values: tuple[int | None, int | None], schema: Schema
) -> None:
    taken = adopt({**batch, "zero_optimization": {"stage": 2}}, schema, ranks=ranks)
    got = taken.values.get("train.micro_batch"), taken.values.get("train.accumulation")
    assert got == values and not taken.problems


def test_a_batch_that_these_ranks_cannot_make_is_a_problem(schema: Schema) -> None:
    for file in ({"train_batch_size": 30}, {"train_batch_size": 4, "train_micro_batch_size_per_gpu": 2}):
        (problem,) = adopt(file, schema, ranks=4).problems
        assert (problem.code, problem.field) == ("batch-mismatch", "train_batch_size") and has(problem.message_key)


def test_the_tables_name_fields_and_keys_that_there_are(schema: Schema) -> None:
    assert set(DIRECT.values()) <= {facts.key for facts in fields()}
    inside = ("optimizer.params.", "scheduler.params.")
    known = [path for path in (*DIRECT, *TOGETHER, *SAME) if not path.startswith(inside)]
    assert [path for path in known if path not in schema.keys] == []
    assert [path for path in PRINTED if path not in schema.keys] == []
