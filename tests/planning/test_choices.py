"""What is chosen where the spec leaves it open."""

from __future__ import annotations

from typing import Any

import pytest

from tests.planning import facts as make
from zeroboard.contract.plan import Decision
from zeroboard.planning.choices import (
    choose_devices,
    choose_dtype,
    lowest_capability,
    small_choices,
    usable_gpus,
)


def values(decisions: tuple[Decision, ...]) -> dict[str, Any]:
    return {decision.field: decision.value for decision in decisions}


def test_without_a_gpu_two_processes_share_the_cpu() -> None:
    devices = choose_devices(make.spec(), make.host())
    assert (devices.device, devices.backend, devices.ranks, devices.names) == ("cpu", "gloo", 2, ("cpu",))


def test_with_gpus_every_free_one_is_taken() -> None:
    devices = choose_devices(make.spec(), make.host(3, held={"GPU-1": "run"}))
    assert (devices.device, devices.backend, devices.names) == ("cuda", "nccl", ("GPU-0", "GPU-2"))
    assert values(devices.decisions)["devices.gpus"] == ["GPU-0", "GPU-2"]


def test_a_count_takes_the_first_free_ones() -> None:
    assert choose_devices(make.spec("devices.count=2"), make.host(4, held={"GPU-0": "r"})).names == ("GPU-1", "GPU-2")


def test_named_gpus_keep_their_order_and_count_once() -> None:
    devices = choose_devices(make.spec("devices.gpus=[GPU-2, GPU-0, GPU-2]"), make.host(3))
    assert devices.names == ("GPU-2", "GPU-0") and devices.ranks == 2


def test_when_all_are_held_they_are_planned_with_all_the_same() -> None:
    assert choose_devices(make.spec(), make.host(2, held={"GPU-0": "r", "GPU-1": "r"})).ranks == 2


def test_lost_and_nameless_gpus_are_not_usable() -> None:
    cards = (*make.gpus(1, state="lost"), *make.gpus(1, uuid=None, index=1), *make.gpus(1, uuid="GPU-9", index=2))
    assert [gpu.uuid for gpu in usable_gpus(make.host(cards))] == ["GPU-9"]


@pytest.mark.parametrize(
    ("capability", "dtype"),
    [("8.0", "bf16"), ("9.0", "bf16"), ("10.3", "bf16"), ("7.5", "fp16"), (None, "fp16"), ("x", "fp16")],
)
def test_the_precision_is_the_best_that_the_weakest_gpu_computes_in(capability: str | None, dtype: str) -> None:
    cards = (*make.gpus(1), *make.gpus(1, uuid="GPU-1", index=1, compute_capability=capability))
    devices = choose_devices(make.spec(), make.host(cards))
    chosen, decisions = choose_dtype(make.spec(), devices)
    assert chosen == dtype and values(decisions) == {"train.precision": dtype}


def test_a_precision_that_was_asked_is_no_decision() -> None:
    devices = choose_devices(make.spec(), make.host())
    assert choose_dtype(make.spec("train.precision=bf16"), devices) == ("bf16", ())
    assert lowest_capability(devices) is None


def test_the_tokens_know_the_template_better_than_the_folder(tmp_path: Any) -> None:
    model = make.model(tmp_path, has_template=True)
    assert values(small_choices(make.spec(), model, None, None))["template"] == "model"
    assert values(small_choices(make.spec(), model, make.tokens(template="chatml"), 5))["template"] == "chatml"
    assert "template" not in values(small_choices(make.spec(), None, None, None))


def test_warm_up_is_told_in_steps_where_there_is_one() -> None:
    assert values(small_choices(make.spec("train.warmup_ratio=0.1"), None, None, 25))["train.warmup_ratio"] == 3
    assert "train.warmup_ratio" not in values(small_choices(make.spec("train.warmup_ratio=0"), None, None, 25))
    assert "train.warmup_ratio" not in values(small_choices(make.spec(), None, None, None))
