"""The loss of supervised fine-tuning, and how samples become a batch.

The loss of an optimizer step is the mean over all *learned tokens* of its global batch: the sum of their cross
entropies divided by their number, counted over every accumulation pass of every rank. So every learned token weighs the
same, and micro-batch, accumulation and ranks can be traded for each other without changing the result. How: before the
first pass the ranks add up the learned tokens of the step, which the collator has counted; each pass divides its sum by
that number (`num_items_in_batch`); DDP and DeepSpeed then average gradients over the ranks, which the factor `world
size` undoes; DeepSpeed's own division by the accumulation is off in the Trainer (`scale_wrt_gas=False`).

Scores over the whole vocabulary are computed only at positions whose next token is learned (for a vocabulary of 49,152
and questions as long as answers that spares a good part of the step); the others would be multiplied by zero.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

IGNORED = -100
"""The label of a position that is not learned."""


class Collator:
    """Pads samples on the right to the longest of the batch; padding is neither attended to nor learned."""

    def __init__(self, pad: int) -> None:
        self.pad = pad

    def __call__(self, samples: Sequence[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        """`input_ids`, `attention_mask` and `labels`, each (samples, longest), and `counts`, (2,); int64.

        `counts`: the learned tokens of the batch, and all of them without padding.
        """
        rows = [sample["input_ids"] for sample in samples]
        labels = [sample["labels"] for sample in samples]
        pad = torch.nn.utils.rnn.pad_sequence
        return {
            "input_ids": pad(rows, batch_first=True, padding_value=self.pad),
            "attention_mask": pad([torch.ones_like(row) for row in rows], batch_first=True, padding_value=0),
            "labels": pad(labels, batch_first=True, padding_value=IGNORED),
            "counts": torch.stack((count_learned(labels), torch.tensor(sum(map(len, rows))))),
        }


def count_learned(labels: Sequence[torch.Tensor]) -> torch.Tensor:
    """How many tokens of these samples have a loss: the first of each is predicted by nothing."""
    return torch.stack([(row[1:] != IGNORED).sum() for row in labels]).sum()


def learned_loss(
    model: nn.Module, inputs: dict[str, torch.Tensor], learned: torch.Tensor | int, *, keeps_positions: bool
) -> torch.Tensor:
    """Sum of the cross entropies of the learned tokens of a batch, divided by `learned`; a scalar in fp32.

    inputs: as the collator makes them. `keeps_positions`: the model can be asked for some positions' scores alone.
    """
    # position i predicts token i + 1
    targets = inputs["labels"][:, 1:]
    positions = (targets != IGNORED).any(dim=0).nonzero().squeeze(-1)
    wanted = {"logits_to_keep": positions} if keeps_positions else {}
    scores = model(
        input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], use_cache=False, **wanted
    ).logits
    if not keeps_positions:
        scores = scores[:, positions]
    total = functional.cross_entropy(
        scores.flatten(0, 1).float(), targets[:, positions].flatten(), ignore_index=IGNORED, reduction="sum"
    )
    return total / learned


def can_keep_positions(model: nn.Module) -> bool:
    """Whether the model computes scores for chosen positions only."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    return "logits_to_keep" in inspect.signature(inner.forward).parameters
