"""Steps, counted as the Trainer counts them."""

from __future__ import annotations

import math

import pytest
from accelerate.data_loader import BatchSamplerShard
from torch.utils.data import BatchSampler, SequentialSampler

from zeroboard.planning.steps import steps, warmup_steps


def as_the_trainer_counts(rows: int, ranks: int, micro: int, accumulation: int, epochs: float) -> int:
    """transformers' `set_initial_training_values` over accelerate's own sampler."""
    whole = BatchSampler(SequentialSampler(range(rows)), micro, drop_last=False)
    passes = len(BatchSamplerShard(whole, num_processes=ranks, process_index=0))
    per_epoch = max(passes // accumulation + int(passes % accumulation > 0), 1)
    return math.ceil(epochs * per_epoch)


@pytest.mark.parametrize("rows", [1, 2, 7, 24, 60, 61, 999])
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize(("micro", "accumulation"), [(1, 1), (2, 4), (3, 2), (16, 5)])
@pytest.mark.parametrize("epochs", [0.3, 1.0, 2.5, 3.0])
def test_steps_are_those_of_the_trainer(rows: int, ranks: int, micro: int, accumulation: int, epochs: float) -> None:
    counted = steps(rows, ranks=ranks, micro=micro, accumulation=accumulation, epochs=epochs)
    assert counted == as_the_trainer_counts(rows, ranks, micro, accumulation, epochs)


def test_a_maximum_counts_whatever_the_epochs_say() -> None:
    assert steps(24, ranks=2, micro=2, accumulation=2, epochs=1.0, max_steps=50) == 50


def test_nothing_to_train_on_takes_no_step() -> None:
    assert steps(0, ranks=2, micro=2, accumulation=2, epochs=1.0, max_steps=50) == 0


def test_absurd_numbers_are_only_large() -> None:
    assert steps(10**30, ranks=1, micro=1, accumulation=1, epochs=1.0) == pytest.approx(1e30)


def test_warm_up_rounds_up() -> None:
    assert warmup_steps(0.03, 45) == 2
    assert warmup_steps(0.0, 45) == 0
