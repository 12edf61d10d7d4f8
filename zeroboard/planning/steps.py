"""How many optimizer steps a training takes, counted as the Trainer counts.

Source: `Trainer.set_initial_training_values` of transformers 5.24 and `BatchSamplerShard.__len__` of accelerate 1.15.
The rows are cut into micro-batches, the micro-batches are dealt to the ranks (short ranks are filled up), and a last,
partial accumulation counts as a step.
"""

from __future__ import annotations

import math

from zeroboard.contract.spec import RunSpec
from zeroboard.zero.config import Schedule


def steps(rows: int, *, ranks: int, micro: int, accumulation: int, epochs: float, max_steps: int | None = None) -> int:
    """Optimizer steps of a whole training over `rows` samples; 0 where there is nothing to train on."""
    if rows < 1:
        return 0
    if max_steps is not None:
        return max_steps
    batches = _up(rows, micro)
    passes = _up(batches, ranks)
    return math.ceil(epochs * _up(passes, accumulation))


def warmup_steps(ratio: float, total: int) -> int:
    """Steps in which the learning rate rises, as transformers rounds a ratio (`TrainingArguments.get_warmup_steps`)."""
    return math.ceil(total * ratio)


def schedule_steps(spec: RunSpec, total: int | None) -> Schedule | None:
    """What DeepSpeed's schedules count in, as the Trainer compares it; None where it is not known.

    WarmupLR never falls again, so with a warm-up in steps it needs no total.
    """
    train = spec.train
    if total is None:
        fixed = spec.zero.scheduler == "WarmupLR" and train.warmup_steps is not None
        return Schedule(total=0, warmup=train.warmup_steps or 1) if fixed else None
    warm = train.warmup_steps if train.warmup_steps is not None else warmup_steps(train.warmup_ratio, total)
    return Schedule(total=total, warmup=max(warm, 1))


def uncounted(spec: RunSpec, total: int | None) -> bool:
    """Whether a schedule of DeepSpeed's is wanted whose steps are not known: `total` is None until the data was
    tokenised, unless the spec names it."""
    return spec.zero.stage != "none" and spec.zero.scheduler != "trainer" and schedule_steps(spec, total) is None


def _up(number: int, by: int) -> int:
    return -(-number // by)
