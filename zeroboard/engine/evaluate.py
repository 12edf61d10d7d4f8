"""The loss on the rows that are held out: the same mean over learned tokens as in training, over all ranks together.

Every rank takes every N-th row and makes as many passes as the others (at stage 3 each pass gathers parameters, so a
rank that left early would leave the others waiting); a rank without rows of its own repeats one that counts nothing.
No scores are kept: each pass adds two numbers to a sum. Random numbers are drawn as if there had been no evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import deepspeed
import torch
import torch.distributed as dist
from torch import nn

from zeroboard.engine.loss import IGNORED, Collator, learned_loss
from zeroboard.engine.store import TokenData


def shares(lengths: Sequence[int], *, ranks: int, micro: int) -> list[list[tuple[list[int], bool]]]:
    """For each rank its passes: the rows of each, and whether they count.

    `lengths` in tokens. Rows of like length go together, so that little is padded and ranks have alike much to do.
    """
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    dealt = [order[rank::ranks] for rank in range(ranks)]
    passes = -(-len(dealt[0]) // micro)
    filler = (order[-1:], False)
    found = []
    for rows in dealt:
        own = [(rows[start : start + micro], True) for start in range(0, len(rows), micro)]
        found.append(own + [filler] * (passes - len(own)))
    return found


def evaluation_loss(
    model: nn.Module,
    data: TokenData,
    collator: Collator,
    *,
    micro: int,
    device: torch.device,
    keeps_positions: bool,
    on_pass: Callable[[], None],
) -> float:
    """Mean cross entropy of the learned tokens of all of `data`; called by all ranks, all get the same number.

    `model` is the engine that trains (DeepSpeed's, DDP's). It is put back into the mode that it was in.
    """
    rank, ranks = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    mine = shares([data.length(row) for row in range(len(data))], ranks=ranks, micro=micro)[rank]
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            for rows, counts in mine:
                on_pass()
                inputs = {name: part.to(device) for name, part in collator([data[row] for row in rows]).items()}
                loss = learned_loss(model, inputs, 1, keeps_positions=keeps_positions)
                if counts:
                    learned = (inputs["labels"][:, 1:] != IGNORED).sum()
                    sums += torch.stack((loss.double(), learned.double()))
    finally:
        model.train(training)
    if isinstance(model, deepspeed.DeepSpeedEngine):
        # stage 3 fetches ahead for the backward pass that it expects; what is on its way could not be saved
        model.empty_partition_cache()
    if dist.is_initialized():
        dist.all_reduce(sums)
    total, learned = sums.tolist()
    return float(total / learned)
