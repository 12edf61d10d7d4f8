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
from typing import Any

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
        """`input_ids`, `attention_mask` and `labels`, each (samples, longest), and `counts`, (3,); int64.

        `counts`: the learned tokens of the batch, all of them without padding, and the samples.
        """
        rows = [sample["input_ids"] for sample in samples]
        labels = [sample["labels"] for sample in samples]
        pad = torch.nn.utils.rnn.pad_sequence
        return {
            "input_ids": pad(rows, batch_first=True, padding_value=self.pad),
            "attention_mask": pad([torch.ones_like(row) for row in rows], batch_first=True, padding_value=0),
            "labels": pad(labels, batch_first=True, padding_value=IGNORED),
            "counts": torch.tensor((count_learned(labels), sum(map(len, rows)), len(rows))),
        }


class PackedCollator:
    """Lays rows of several samples below one another; no sample sees another.

    That holds where positions begin anew with each sample, no attention mask is given and no cache is used: then
    attention is masked by the positions alone. What fills a row up begins anew as well, so that nothing sees it.
    """

    def __init__(self, pad: int) -> None:
        self.pad = pad

    def __call__(self, rows: Sequence[Sequence[dict[str, torch.Tensor]]]) -> dict[str, torch.Tensor]:
        """`input_ids`, `position_ids` and `labels`, each (rows, longest), and `counts` as `Collator` makes them."""
        sizes = [sum(len(sample["input_ids"]) for sample in row) for row in rows]
        ids, positions, labels = [], [], []
        for row, size in zip(rows, sizes, strict=True):
            rest = max(sizes) - size
            parts = [sample["input_ids"] for sample in row] + [torch.full((rest,), self.pad)]
            ids.append(torch.cat(parts))
            positions.append(torch.cat([torch.arange(len(part)) for part in parts]))
            learned = [functional.pad(sample["labels"][1:], (1, 0), value=IGNORED) for sample in row]
            labels.append(torch.cat([*learned, torch.full((rest,), IGNORED)]))
        counts = (count_learned(labels), sum(sizes), sum(map(len, rows)))
        return {
            "input_ids": torch.stack(ids),
            "position_ids": torch.stack(positions),
            "labels": torch.stack(labels),
            "counts": torch.tensor(counts),
        }


def count_learned(labels: Sequence[torch.Tensor]) -> int:
    """How many tokens of these rows have a loss: the first of each is predicted by nothing."""
    return sum(int((row[1:] != IGNORED).sum()) for row in labels)


def learned_loss(
    model: nn.Module, inputs: dict[str, torch.Tensor], learned: torch.Tensor | int, *, keeps_positions: bool
) -> torch.Tensor:
    """Sum of the cross entropies of the learned tokens of a batch, divided by `learned`; a scalar in fp32.

    inputs: as a collator makes them. `keeps_positions`: the model can be asked for some positions' scores alone.
    """
    # position i predicts token i + 1
    targets = inputs["labels"][:, 1:]
    positions = (targets != IGNORED).any(dim=0).nonzero().squeeze(-1)
    wanted = {"logits_to_keep": positions} if keeps_positions else {}
    seen = {name: inputs[name] for name in ("input_ids", "attention_mask", "position_ids") if name in inputs}
    scores = model(**seen, use_cache=False, **wanted).logits
    if not keeps_positions:
        scores = scores[:, positions]
    total = functional.cross_entropy(
        scores.flatten(0, 1).float(), targets[:, positions].flatten(), ignore_index=IGNORED, reduction="sum"
    )
    return total / learned


def can_keep_positions(model: nn.Module) -> bool:
    """Whether the model computes scores for chosen positions only."""
    base: Any = getattr(model, "get_base_model", None)  # of peft
    inner: Any = model if base is None else base()
    return "logits_to_keep" in inspect.signature(inner.forward).parameters
