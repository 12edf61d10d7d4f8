"""What the process that asks NVML tells whoever started it."""

from __future__ import annotations

from zeroboard.contract.base import Record
from zeroboard.contract.host import GpuFacts


class Probe(Record):
    """NVML's answer: one line of JSON."""

    says: str | None = None
    """None where it answered; else the key of the sentence why not."""
    driver: str | None = None
    gpus: tuple[GpuFacts, ...] = ()
