"""What the process that asks NVML tells whoever started it."""

from __future__ import annotations

from zeroboard.contract.base import Record
from zeroboard.contract.host import GpuFacts

RETRY = 10.0
"""Seconds between two questions of the `watch` process where NVML as a whole does not answer."""


class Probe(Record):
    """NVML's answer: one line of JSON."""

    says: str | None = None
    """None where it answered; else the key of the sentence why not."""
    driver: str | None = None
    gpus: tuple[GpuFacts, ...] = ()
