"""Utilisation: known cards by the names that NVML gives them, unknown ones not guessed."""

from __future__ import annotations

import pytest

from tests.fakes import make_run
from zeroboard.contract.events import TrainEvent
from zeroboard.paths import Paths
from zeroboard.runs.mfu import flops_a_token, mfu_of_token, peak
from zeroboard.runs.registry import read_plan

NAMES = {
    "NVIDIA A100-SXM4-80GB": 312.0,
    "NVIDIA A100 80GB PCIe": 312.0,
    "NVIDIA A10": 125.0,
    "NVIDIA H100 80GB HBM3": 989.4,
    "NVIDIA H100 PCIe": 756.0,
    "NVIDIA H100 NVL": 835.5,
    "NVIDIA H200": 989.4,
    "NVIDIA B200": 2250.0,
    "NVIDIA L4": 121.0,
    "NVIDIA L40S": 362.0,
    "NVIDIA GeForce RTX 3090": 71.0,
    "NVIDIA GeForce RTX 4090": 165.2,
    "NVIDIA GeForce RTX 5090": 209.5,
    "NVIDIA RTX 6000 Ada Generation": 364.2,
}
UNKNOWN = (
    "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
    "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
    "NVIDIA Z9000",
    "",
)


def train(parameters: int = 1_000_000_000, trainable: int = 1_000_000_000) -> TrainEvent:
    return TrainEvent(
        seq=1, time=1.0, rank=0, steps=9, epochs=1.0, rows=9, trainable_parameters=trainable, parameters=parameters
    )


@pytest.mark.parametrize("name", NAMES)
def test_known_cards_have_their_peak(name: str) -> None:
    assert peak(name, "bf16") == pytest.approx(NAMES[name] * 1e12)
    fp32 = peak(name, "fp32")
    assert fp32 is not None and fp32 < NAMES[name] * 1e12


@pytest.mark.parametrize("name", UNKNOWN)
def test_other_cards_are_not_guessed(name: str) -> None:
    assert peak(name, "bf16") is None


def test_older_cards_have_no_bf16() -> None:
    for name in ("Tesla T4", "Tesla V100-SXM2-32GB"):
        assert peak(name, "bf16") is None and peak(name, "fp16") is not None


def test_frozen_weights_get_no_gradients() -> None:
    assert flops_a_token(train()) == 6e9
    assert flops_a_token(train(trainable=10_000_000)) == pytest.approx(4.02e9)


def test_the_share_is_of_all_cards_and_only_of_known_ones(tmp_path_factory: pytest.TempPathFactory) -> None:
    plan = read_plan(make_run(Paths(tmp_path_factory.mktemp("mfu"))))
    assert plan.resolved is not None
    cpu = plan.resolved
    cuda = cpu.model_copy(update={"device": "cuda", "dtype": "bf16"})
    cards = ["NVIDIA A100-SXM4-80GB"] * 2
    one = mfu_of_token(train(), cuda, cards)
    assert one is not None and one * 52_000 == pytest.approx(52_000 * 6e9 / (2 * 312e12))
    assert mfu_of_token(train(), cpu, cards) is None
    assert mfu_of_token(train(), cuda, [cards[0], "NVIDIA H200"]) is None
    assert mfu_of_token(train(), cuda, ["NVIDIA Z9000"]) is None
    assert mfu_of_token(train(), cuda, []) is None and mfu_of_token(None, cuda, cards) is None
