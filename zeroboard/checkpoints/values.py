"""The values of tensors, streamed: is everything finite, is anything constant.

Read with plain reads into one small buffer and not through a memory map: a file that is cut while it is read is then a
short read and not a SIGBUS, and the buffer stays in the processor's cache. Floating-point numbers are looked at as
integers: infinite and NaN are, without their sign bit, exactly the values from the exponent's mask upwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import FileIO
from typing import Any

import numpy as np

from zeroboard.headers import Tensor

CHUNK = 1 << 20
"""Bytes read at a time."""

_WIDTH: dict[str, type[np.unsignedinteger[Any]]] = {
    "F64": np.uint64,
    "F32": np.uint32,
    "F16": np.uint16,
    "BF16": np.uint16,
    "F8_E5M2": np.uint8,
    "F8_E4M3": np.uint8,
}

_LIMIT = {
    "F64": 0x7FF << 52,
    "F32": 0xFF << 23,
    "F16": 0x1F << 10,
    "BF16": 0xFF << 7,
    "F8_E5M2": 0x1F << 2,
    "F8_E4M3": 0x7F,
}
"""The smallest value without its sign that is not finite; E4M3 has no infinity and one NaN."""


@dataclass(frozen=True, slots=True)
class Values:
    """What a pass over one tensor found."""

    bad_at: int | None
    """Index (row-major) of the first element that is NaN or infinite."""
    constant: bool
    """All elements have the same bits."""
    zero: bool
    """All elements are 0 (of either sign)."""


def can_judge(tensor: Tensor) -> bool:
    """Whether its type holds floating-point numbers that are known here."""
    return tensor.dtype in _WIDTH


def scan(stream: FileIO, tensor: Tensor, on_bytes: Callable[[int], None] | None = None) -> Values | None:
    """Look at every element of a tensor; None where the file ends before the tensor does.

    `on_bytes` is told how many bytes each read brought. The type must be one that `can_judge` accepts.
    """
    kind = _WIDTH[tensor.dtype]
    limit, sign = _LIMIT[tensor.dtype], 1 << (8 * np.dtype(kind).itemsize - 1)
    buffer = bytearray(min(CHUNK, tensor.end - tensor.start))
    view = memoryview(buffer)
    bad_at, constant, zero, first = None, True, True, None
    stream.seek(tensor.start)
    at = tensor.start
    while at < tensor.end:
        wanted = min(len(buffer), tensor.end - at)
        if not _fill(stream, view[:wanted]):
            return None
        chunk = np.frombuffer(view[:wanted], dtype=kind)
        # as unsigned integers negative numbers are the largest ones, as signed integers positive numbers are
        negative, positive = int(chunk.max()), int(chunk.view(f"i{chunk.itemsize}").max())
        if bad_at is None and (positive >= limit or negative >= sign | limit):
            bad_at = (at - tensor.start) // chunk.itemsize + int(np.argmax((chunk & (sign - 1)) >= limit))
        zero = zero and positive <= 0 and negative in (0, sign)
        if constant:
            first = chunk[0].copy() if first is None else first
            constant = bool((chunk == first).all())
        at += wanted
        if on_bytes:
            on_bytes(wanted)
    return Values(bad_at, constant, zero)


def _fill(stream: FileIO, view: memoryview) -> bool:
    """Read until the view is full; False at the end of the file."""
    done = 0
    while done < len(view):
        got = stream.readinto(view[done:])
        if not got:
            return False
        done += got
    return True
