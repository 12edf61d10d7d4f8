"""What torch and DeepSpeed say about themselves on this machine; asked of them by the engine, judged by `planning`."""

from __future__ import annotations

from zeroboard.contract.base import Record

TOOLCHAIN_LAYOUT = 1
"""Raised whenever what is asked changes; part of the cached answer's name."""


class OpFacts(Record):
    """One of DeepSpeed's operators, as its own builder judges it here."""

    compatible: bool
    """DeepSpeed's builder finds what it needs, and the CUDA toolkit (where it compiles against one) is torch's."""
    why: str | None = None
    """What the builder said; None where it said nothing."""


class Toolchain(Record):
    """torch, CUDA, DeepSpeed's operators and the compiler."""

    torch: str
    cuda: str | None = None
    """The CUDA version that torch was built for; None: a CPU build."""
    architectures: tuple[str, ...] = ()
    """What torch's kernels were compiled for: `sm_80` …, `compute_90` for what the driver can compile further."""
    deepspeed: str | None = None
    toolkit: str | None = None
    """The CUDA toolkit that extensions are compiled with; None: none is found."""
    ops: dict[str, OpFacts] = {}
    """Name of an operator → what its builder says; empty where DeepSpeed cannot be asked."""
    compiles: bool = False
    """A small C++ program with Python's and OpenMP's headers was compiled and linked."""
    said: str | None = None
    """The compiler's first complaint, or why DeepSpeed cannot be asked."""
