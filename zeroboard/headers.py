"""Headers of safetensors files, read as bytes: 8 bytes of length, JSON, then the tensors. No tensor is loaded.

Source: the format's description in https://github.com/huggingface/safetensors (README, "Format").
Covered: impossible lengths, JSON that is none, offsets that overlap, leave a hole or contradict the shape, and a file
that is shorter or longer than its header says. Not covered: the values (see `zeroboard.checkpoints`).
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass, field
from pathlib import Path

from zeroboard.errors import BrokenFile

MAX_HEADER = 100_000_000
"""Bytes; the format's own limit."""

MOST = 1 << 63
"""No size or offset reaches it: files end before."""

ELEMENT_BYTES: dict[str, int] = {
    **dict.fromkeys(("BOOL", "I8", "U8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 1),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 2),
    **dict.fromkeys(("I32", "U32", "F32"), 4),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 8),
}
"""Bytes an element; types that are not here are let pass unmeasured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One entry of a header."""

    dtype: str
    """As the format names it: `BF16`."""
    shape: tuple[int, ...]
    start: int
    """First byte, counted from the start of the file."""
    end: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a safetensors file says it holds."""

    path: Path
    tensors: dict[str, Tensor]
    metadata: dict[str, str] = field(default_factory=dict)
    promised: int
    """Bytes that the file should have."""
    size: int
    """Bytes that it has."""


def read_header(path: Path) -> Header:
    """The header of a safetensors file.

    Raises `BrokenFile` (says `header.<what>`, params `file`, `tensor`, …) where it cannot be a header or contradicts
    itself, and `FileNotFoundError`. A file that is cut or too long is no exception: compare `promised` with `size`.
    """
    size = path.stat().st_size
    name = path.name
    with path.open("rb") as stream:
        first = stream.read(8)
        if len(first) < 8:
            raise BrokenFile("header.too-short", file=name, size=size)
        (length,) = struct.unpack("<Q", first)
        if length > MAX_HEADER or length < 2:
            raise BrokenFile(_what_else(first + stream.read(120)), file=name, length=length)
        raw = stream.read(length)
    if len(raw) < length:
        raise BrokenFile("header.cut", file=name, size=size, length=length)
    try:
        entries = json.loads(raw, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise BrokenFile("header.not-json", file=name, why=str(error)) from error
    if not isinstance(entries, dict):
        raise BrokenFile("header.not-json", file=name, why=type(entries).__name__)
    metadata = entries.pop("__metadata__", {})
    data_start = 8 + length
    tensors = {key: _tensor(name, key, entry, data_start) for key, entry in entries.items()}
    end = _check_layout(name, tensors, data_start)
    return Header(
        path=path,
        tensors=tensors,
        metadata={str(k): str(v) for k, v in metadata.items()} if isinstance(metadata, dict) else {},
        promised=end,
        size=size,
    )


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object whose names appear once each; raises `ValueError` for one that appears twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name appears twice")
    return found


def _what_else(start: bytes) -> str:
    """Which kind of other file it is, as a message key."""
    if start.startswith(b"version https://git-lfs"):
        return "header.lfs-pointer"
    if start.lstrip()[:1] == b"<":
        return "header.html"
    return "header.impossible-length"


def _tensor(file: str, key: str, entry: object, data_start: int) -> Tensor:
    try:
        dtype, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]  # type: ignore[index]
    except (KeyError, TypeError, ValueError) as error:
        raise BrokenFile("header.bad-entry", file=file, tensor=key) from error
    whole = all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < MOST for n in (*shape, start, end))
    if not isinstance(dtype, str) or not whole:
        raise BrokenFile("header.bad-entry", file=file, tensor=key)
    width = ELEMENT_BYTES.get(dtype)
    if width is not None and end - start != math.prod(shape) * width:
        raise BrokenFile("header.shape-mismatch", file=file, tensor=key, shape=str(list(shape)), bytes=end - start)
    return Tensor(dtype=dtype, shape=shape, start=data_start + start, end=data_start + end)


def _check_layout(file: str, tensors: dict[str, Tensor], data_start: int) -> int:
    """Tensors must lie one behind the other without hole or overlap; returns the end of the last."""
    at = data_start
    for key, tensor in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end)):
        if tensor.start != at:
            says = "header.overlap" if tensor.start < at else "header.hole"
            raise BrokenFile(says, file=file, tensor=key)
        at = tensor.end
    return at
