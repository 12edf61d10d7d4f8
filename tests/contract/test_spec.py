"""The one table of fields, and that the options that people know stay."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from zeroboard.contract.spec import RunSpec, fields

GOOD = {"model": {"path": "m"}, "data": {"path": "d"}}


def test_the_public_options_are_these() -> None:
    assert [facts.key for facts in fields()] == [
        "name",
        "model.path",
        "model.trust_remote_code",
        "data.path",
        "data.columns",
        "data.weight",
        "data.more",
        "data.max_length",
        "data.evaluation",
        "data.eval_path",
        "data.accept_refused",
        "data.packing",
        "method.kind",
        "method.rank",
        "method.alpha",
        "method.dropout",
        "method.targets",
        "train.learning_rate",
        "train.epochs",
        "train.max_steps",
        "train.micro_batch",
        "train.accumulation",
        "train.schedule",
        "train.warmup_ratio",
        "train.warmup_steps",
        "train.weight_decay",
        "train.adam_beta1",
        "train.adam_beta2",
        "train.adam_epsilon",
        "train.max_grad_norm",
        "train.precision",
        "train.activation_checkpointing",
        "train.save_every",
        "train.keep_checkpoints",
        "train.evaluate_every",
        "train.log_every",
        "train.workers",
        "train.seed",
        "zero.stage",
        "zero.offload",
        "zero.optimizer_device",
        "zero.param_device",
        "zero.nvme_path",
        "zero.ratio",
        "zero.pin_memory",
        "zero.optimizer_buffers",
        "zero.param_buffers",
        "zero.param_buffer_size",
        "zero.param_in_cpu",
        "zero.aio_block_size",
        "zero.aio_queue_depth",
        "zero.aio_parallelism",
        "zero.aio_single_submit",
        "zero.aio_overlap_events",
        "zero.overlap_comm",
        "zero.bucket_size",
        "zero.allgather_bucket_size",
        "zero.reduce_scatter",
        "zero.contiguous_gradients",
        "zero.round_robin_gradients",
        "zero.prefetch_bucket_size",
        "zero.max_live_parameters",
        "zero.max_reuse_distance",
        "zero.persistence_threshold",
        "zero.sub_group_size",
        "zero.gather_on_save",
        "zero.loss_scale",
        "zero.loss_scale_power",
        "zero.loss_scale_window",
        "zero.hysteresis",
        "zero.min_loss_scale",
        "zero.optimizer",
        "zero.scheduler",
        "zero.warmup_curve",
        "zero.warmup_min_ratio",
        "zero.cosine_min_ratio",
        "devices.count",
        "devices.gpus",
        "devices.nodes",
        "devices.rendezvous",
        "devices.price_per_hour",
    ]


def test_the_table_knows_kind_bounds_choices_and_unit() -> None:
    table = {facts.key: facts for facts in fields()}
    assert table["zero.stage"].kind == "choice" and table["zero.stage"].choices == ("none", "1", "2", "3")
    assert table["model.path"].default is ... and table["model.path"].kind == "text"
    rate = table["train.learning_rate"]
    assert (rate.kind, rate.gt, rate.le, rate.default) == ("number", 0.0, 10.0, 2e-4)
    save = table["train.save_every"]
    assert (save.kind, save.optional, save.ge, save.unit) == ("integer", True, 1, "steps")
    assert table["zero.overlap_comm"].kind == "switch" and table["zero.overlap_comm"].advanced
    assert table["devices.gpus"].kind == "list"
    assert table["data.columns"].kind == "mapping" and {"instruction", "output"} <= set(table["data.columns"].choices)


def test_every_number_has_both_bounds_but_the_devices_that_are_counted() -> None:
    for facts in fields():
        if facts.kind in ("integer", "number"):
            assert facts.ge is not None or facts.gt is not None, facts.key
            assert facts.le is not None or facts.lt is not None, facts.key


def test_a_spec_is_frozen_and_knows_no_other_key() -> None:
    spec = RunSpec.model_validate(GOOD)
    with pytest.raises(ValidationError):
        spec.name = "x"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        RunSpec.model_validate({**GOOD, "zeroo": {}})
    with pytest.raises(ValidationError):
        RunSpec.model_validate({**GOOD, "train": {"learning_rate": float("nan")}})


def test_a_spec_comes_back_from_its_json() -> None:
    spec = RunSpec.model_validate({**GOOD, "zero": {"stage": 3, "offload": "all"}, "devices": {"gpus": ["a", "b"]}})
    assert RunSpec.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.parametrize("stage", [True, 4, "0", None, 2.0])
def test_what_is_no_stage_is_refused(stage: object) -> None:
    with pytest.raises(ValidationError):
        RunSpec.model_validate({**GOOD, "zero": {"stage": stage}})
