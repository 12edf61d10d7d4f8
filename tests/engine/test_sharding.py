"""What the proof measures, read from tensors as DeepSpeed leaves them."""

from __future__ import annotations

import torch
from torch import nn

from zeroboard.engine.sharding import _offloaded_bytes, frozen_released, optimizer_tensors, parameter_tensors


def sharded(size: int, *, frozen: bool, gathered: bool = False, persist: bool = False) -> nn.Parameter:
    """A parameter with what stage 3 puts onto it."""
    parameter = nn.Parameter(torch.ones(size if gathered else 0), requires_grad=not frozen)
    parameter.ds_tensor = torch.ones(size // 2)  # type: ignore[attr-defined]
    parameter.ds_persist = persist  # type: ignore[attr-defined]
    return parameter


def test_frozen_parameters_are_released_when_all_are_empty_but_the_small_ones() -> None:
    trained = sharded(8, frozen=False, gathered=True)
    small = sharded(2, frozen=True, gathered=True, persist=True)
    released = sharded(8, frozen=True)
    assert frozen_released(nn.ParameterList([trained, small, released])) is True
    kept = sharded(8, frozen=True, gathered=True)
    assert frozen_released(nn.ParameterList([trained, small, released, kept])) is False


def test_without_sharded_frozen_parameters_there_is_nothing_to_release() -> None:
    assert frozen_released(nn.ParameterList([sharded(8, frozen=False)])) is None
    assert frozen_released(nn.Linear(2, 2).requires_grad_(False)) is None


def test_every_piece_of_memory_counts_once() -> None:
    model = nn.ParameterList([sharded(8, frozen=True), sharded(8, frozen=False, gathered=True)])
    model.append(model[1])
    assert sum(t.numel() for t in parameter_tensors(model)) == 4 + 8 + 4
    plain = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(plain.parameters())
    plain(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    states = optimizer_tensors(optimizer, list(plain.parameters()))
    assert sum(t.numel() for t in states) == 2 * (6 + 2) + 2  # two moments, and a step counter for each parameter


def test_on_a_gpu_offloaded_is_what_lies_in_host_memory_without_step_counters() -> None:
    weights = [torch.ones(10, device="meta", dtype=torch.bfloat16)]  # stands for a GPU's memory
    counter = torch.zeros(())
    moments = [torch.ones(10, device="meta"), torch.ones(10, device="meta")]
    assert _offloaded_bytes(nn.Linear(1, 1), None, weights, [*moments, counter]) == 0
    offloaded = [torch.ones(10), torch.ones(10)]
    assert _offloaded_bytes(nn.Linear(1, 1), None, weights, [*offloaded, counter]) == 2 * 40
    assert _offloaded_bytes(nn.Linear(1, 1), None, [*weights, torch.ones(5)], [*moments, counter]) == 20
