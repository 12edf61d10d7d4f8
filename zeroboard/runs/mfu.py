"""Model FLOPs utilisation: what share of the cards' arithmetic goes into the model itself.

    MFU = tokens/s × FLOPs a token ÷ (ranks × a card's peak)
    FLOPs a token = 2·P (forward) + 2·P (backward, towards the activations) + 2·T (backward, into the weights)

with P parameters, of which T are trained: 6·P where all are, about 4·P with LoRA. Not counted are the activations that
checkpointing computes again, attention's quadratic part and padding, so the true use of the card is somewhat higher.
The peak is that of dense matrices (never "with sparsity") in the type that the run computes in, fp32 without TF32.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from zeroboard.contract.events import TrainEvent
from zeroboard.contract.plan import Dtype, Resolved

CARDS: tuple[tuple[str, float | None, float, float], ...] = (
    # Name as NVML gives it, without maker and family; then TFLOP/s of dense matrices in bf16 (None: the card has none),
    # fp16 and fp32. From NVIDIA's data sheets of each card, halved where they count sparsity; GeForce and RTX cards
    # from the white papers of GA102, AD102 and GB202, tensor cores that add up in fp32.
    (r"(A100|A800)(-SXM4-\d+GB|-PCIE-\d+GB| \d+GB PCIe)", 312.0, 312.0, 19.5),
    (r"A30", 165.0, 165.0, 10.3),
    (r"A40", 149.7, 149.7, 37.4),
    (r"A10", 125.0, 125.0, 31.2),
    (r"(H100|H800) \d+GB HBM3|GH200 \d+GB", 989.4, 989.4, 66.9),
    (r"(H100|H800) (PCIe|80GB HBM2e)", 756.0, 756.0, 51.2),
    (r"H100 NVL|H200 NVL", 835.5, 835.5, 60.0),
    (r"H200", 989.4, 989.4, 66.9),
    (r"H20", 148.0, 148.0, 44.0),
    (r"B200", 2250.0, 2250.0, 75.0),
    (r"GB200", 2500.0, 2500.0, 80.0),
    (r"L4", 121.0, 121.0, 30.3),
    (r"L20", 119.5, 119.5, 59.8),
    (r"L40", 181.0, 181.0, 90.5),
    (r"L40S", 362.0, 362.0, 91.6),
    (r"T4", None, 65.0, 8.1),
    (r"V100-SXM\d-\d+GB(-LS)?", None, 125.0, 15.7),
    (r"V100-PCIE-\d+GB", None, 112.0, 14.0),
    (r"V100S-PCIE-\d+GB", None, 130.0, 16.4),
    (r"RTX A5000", 111.1, 111.1, 27.8),
    (r"RTX A6000", 154.8, 154.8, 38.7),
    (r"RTX 6000 Ada Generation", 364.2, 364.2, 91.1),
    (r"RTX PRO 6000 Blackwell (Workstation|Server) Edition", 503.8, 503.8, 126.0),
    (r"RTX 3090", 71.0, 71.0, 35.6),
    (r"RTX 3090 Ti", 80.0, 80.0, 40.0),
    (r"RTX 4090", 165.2, 165.2, 82.6),
    (r"RTX 4090 D", 147.1, 147.1, 73.5),
    (r"RTX 5090", 209.5, 209.5, 104.8),
    (r"RTX 5080", 112.6, 112.6, 56.3),
)
"""Laptops' cards and MIG slices bear other names than these, and so are unknown."""

_FAMILY = re.compile(r"^(NVIDIA |Tesla |GeForce |Quadro )+")


def peak(card: str, dtype: Dtype) -> float | None:
    """FLOP/s of a card at its best, dense, by its name as NVML gives it; None where it is not known."""
    name = _FAMILY.sub("", card)
    for pattern, bf16, fp16, fp32 in CARDS:
        if re.fullmatch(pattern, name):
            figure = {"bf16": bf16, "fp16": fp16, "fp32": fp32}[dtype]
            return figure * 1e12 if figure is not None else None
    return None


def flops_a_token(train: TrainEvent) -> float:
    """Of forward and backward; see the module."""
    return 4.0 * train.parameters + 2.0 * train.trainable_parameters


def mfu_of_token(train: TrainEvent | None, resolved: Resolved | None, cards: Iterable[str | None]) -> float | None:
    """The utilisation that one token a second means. `cards`: the names of the run's GPUs.

    None on the CPU, for an unknown card, and where not all of them are of one kind.
    """
    kinds = set(cards)
    if train is None or resolved is None or resolved.device == "cpu" or len(kinds) != 1:
        return None
    card = kinds.pop()
    figure = peak(card, resolved.dtype) if card is not None else None
    return flops_a_token(train) / (resolved.batch.gpus * figure) if figure is not None else None
