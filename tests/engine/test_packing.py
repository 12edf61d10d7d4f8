"""Packing: rows are filled well, and no sample sees another, on every path that a training takes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM

from tests.engine.launch import events, logs, plan_run, start
from tests.tiny import tiny_data
from zeroboard.contract.events import ErrorEvent, StepEvent, TrainEvent
from zeroboard.contract.plan import read_tokens
from zeroboard.contract.requests import TokeniseRequest
from zeroboard.contract.spec import DataSpec, DeviceSpec, MethodSpec, ModelSpec, RunSpec, TrainSpec, ZeroSpec
from zeroboard.engine.isolation import LEAK, Leaks, leak
from zeroboard.engine.loss import Collator, PackedCollator, learned_loss
from zeroboard.engine.packing import pack
from zeroboard.engine.store import PackedData, TokenData
from zeroboard.engine.tokens import tokenise

ROWS = 8
LENGTH = 112
"""Eight samples of the tiny data fill two rows of this length."""


@pytest.mark.parametrize("capacity", [100, 64, 1000])
def test_every_sample_is_in_one_row_and_no_row_is_too_long(capacity: int) -> None:
    lengths = np.random.default_rng(0).integers(1, 65, 500)
    order, edges = pack(lengths, capacity)
    assert sorted(order.tolist()) == list(range(500)) and edges[0] == 0 and edges[-1] == 500
    rows = [int(lengths[order[a:b]].sum()) for a, b in pairwise(edges)]
    assert max(rows) <= capacity and len(rows) <= -(-int(lengths.sum()) // capacity) * 1.1 + 1


def test_a_sample_goes_where_the_least_room_is_left() -> None:
    order, edges = pack([3, 6, 4, 5, 2], 10)
    assert [sorted(order[a:b].tolist()) for a, b in pairwise(edges)] == [[1, 2], [0, 3, 4]]
    assert [part.tolist() for part in pack([], 10)] == [[], [0]]


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory, tiny_model_folder: Path) -> TokenData:
    folder = tmp_path_factory.mktemp("packed")
    data = tiny_data(folder / "data.jsonl", rows=ROWS)
    asked = TokeniseRequest(
        data_path=str(data), model_path=str(tiny_model_folder), max_length=LENGTH, target=str(folder / "tokens" / "key")
    )
    facts = tokenise(asked)
    assert facts.packed == 2 and facts.longest < LENGTH
    return TokenData(folder / "tokens" / "key")


@pytest.fixture(params=["sdpa", "eager"])
def model(request: pytest.FixtureRequest, tiny_model_folder: Path) -> Iterator[nn.Module]:
    yield AutoModelForCausalLM.from_pretrained(
        tiny_model_folder, dtype=torch.float32, attn_implementation=request.param
    )


def gradients(model: nn.Module, batch: dict[str, torch.Tensor], learned: int) -> tuple[float, list[torch.Tensor]]:
    model.zero_grad()
    loss = learned_loss(model, batch, learned, keeps_positions=True)
    loss.backward()
    return float(loss.detach()), [p.grad.clone() for p in model.parameters() if p.grad is not None]


def test_loss_and_gradients_are_those_of_the_samples_alone(model: nn.Module, tokens: TokenData) -> None:
    packed = PackedCollator(2)([PackedData(tokens)[row] for row in range(2)])
    alone = Collator(2)([tokens[row] for row in range(ROWS)])
    assert packed["counts"].tolist() == alone["counts"].tolist() and "attention_mask" not in packed
    learned = int(packed["counts"][0])
    loss, found = gradients(model, packed, learned)
    expected, wanted = gradients(model, alone, learned)
    assert loss == pytest.approx(expected, rel=1e-5)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)
    # what would go wrong without any word: positions that run on, or a mask of ones beside them
    for wrong in (
        {"position_ids": torch.arange(packed["input_ids"].shape[1]).expand(2, -1)},
        {"attention_mask": torch.ones_like(packed["input_ids"])},
    ):
        assert abs(gradients(model, packed | wrong, learned)[0] - expected) > 1e-4


class Counting(nn.Module):
    """A model that pays no heed to the positions that it is given."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor, use_cache: bool) -> Any:
        return self.inner(input_ids=input_ids, use_cache=use_cache)


class Unplaced(nn.Module):
    """A model that takes no positions."""

    def forward(self, input_ids: torch.Tensor, use_cache: bool) -> Any:
        raise AssertionError("never reached")


def test_a_model_is_asked_whether_it_leaks(model: nn.Module, tokens: TokenData) -> None:
    first, second = tokens[0]["input_ids"], tokens[1]["input_ids"]
    model.train()
    assert leak(model, first, second) < 1e-3 and model.training
    assert leak(Counting(model), first, second) > LEAK
    with pytest.raises(Leaks, match="takes no positions"):
        leak(Unplaced(), first, second)


def spec_for(model: Path, data: Path, packing: str, stage: str) -> RunSpec:
    micro, accumulation = (1, 1) if packing == "packed" else (2, 2)
    train = {"learning_rate": 1e-3, "epochs": 1, "micro_batch": micro, "accumulation": accumulation}
    return RunSpec(
        model=ModelSpec(path=str(model)),
        data=DataSpec.model_validate({"path": str(data), "max_length": LENGTH, "packing": packing}),
        method=MethodSpec(kind="full"),
        train=TrainSpec.model_validate(train),
        zero=ZeroSpec.model_validate({"stage": stage}),
        devices=DeviceSpec(count=2),
    )


@pytest.mark.train
@pytest.mark.long
def test_two_ranks_make_the_same_step_of_packed_samples_as_of_samples_alone(
    tmp_path: Path, tiny_model_folder: Path
) -> None:
    """All samples are in the one step; plain data parallel and stage 3."""
    data = tiny_data(tmp_path / "data.jsonl", rows=ROWS)
    found = []
    for packing, stage in (("grouped", "none"), ("packed", "none"), ("packed", "3")):
        run, plan = plan_run(tmp_path / f"{packing}-{stage}", spec_for(tiny_model_folder, data, packing, stage))
        assert start(run, plan).wait(timeout=240) == 0, logs(run)
        said = events(run)
        (train,) = [event for event in said if isinstance(event, TrainEvent)]
        (step,) = [event for event in said if isinstance(event, StepEvent)]
        assert (train.steps, train.rows) == (1, ROWS) and not [e for e in said if isinstance(e, ErrorEvent)]
        assert step.samples_per_s * step.step_time == pytest.approx(ROWS)
        found.append((step.loss, step.grad_norm, step.tokens_per_s * step.step_time))
        assert plan.resolved is not None
        facts = read_tokens(tmp_path / f"{packing}-{stage}" / "tokens" / plan.resolved.tokens_key)
        assert facts is not None and found[-1][2] == pytest.approx(facts.tokens)
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-3)
