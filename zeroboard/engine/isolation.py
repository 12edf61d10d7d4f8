"""Do samples that share a row see each other? Asked of the very model that is trained, before its first step.

Whether they do is decided by the model's own code: where attention is masked by positions they do not; a model that
carries a state from token to token, or that pays no heed to positions, lets them, and says nothing.
"""

from __future__ import annotations

from typing import Any

import deepspeed
import torch
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from zeroboard.engine.store import TokenData

LEAK = 0.1
"""Share of what a sample's neighbour would change at most that rounding may change."""

PROBE = 32
"""Tokens of each of the two samples that are looked at."""


class Leaks(ValueError):
    """Samples that share a row see each other in this model."""


class IsolationCheck(TrainerCallback):
    """Ends the training before it begins where samples that share a row see each other."""

    def __init__(self, data: TokenData) -> None:
        self.trainer: Any = None
        self._data = data

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Raises `Leaks`, on all ranks alike."""
        first = self._data[0]["input_ids"][:PROBE]
        second = self._data[len(self._data) - 1]["input_ids"].flip(0)[:PROBE]
        with self.trainer.compute_loss_context_manager():
            found = leak(self.trainer.model_wrapped, first.to(args.device), second.to(args.device))
        if not found <= LEAK:
            raise Leaks(
                f"in this model samples that share a row see each other ({found:.0%} of what they would see unpacked): "
                "train it with data.packing none or grouped"
            )


def leak(model: nn.Module, first: torch.Tensor, second: torch.Tensor) -> float:
    """How much a sample packed behind another differs from itself alone, against how much it would behind it unpacked.

    Both are ids, (length,). 0: not at all; 1: as if they were one text. Called by all ranks.
    """
    both = torch.cat((first, second))
    counted = torch.arange(len(both), device=both.device)
    packed = torch.cat((counted[: len(first)], counted[: len(second)]))
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            scores = [
                model(input_ids=ids[None], position_ids=positions[None], use_cache=False).logits[0, -len(second) :]
                for ids, positions in ((second, counted[: len(second)]), (both, packed), (both, counted))
            ]
    except TypeError as error:
        raise Leaks(f"this model takes no positions, so no samples can share a row: {error}") from error
    finally:
        model.train(training)
    if isinstance(model, deepspeed.DeepSpeedEngine):
        model.empty_partition_cache()
    alone, beside, behind = (part.float() for part in scores)
    differs, would = float((beside - alone).abs().mean()), float((behind - alone).abs().mean())
    return differs / would if would else float(differs > 0)
