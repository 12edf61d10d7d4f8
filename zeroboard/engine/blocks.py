"""One tensor of a merge, computed block of rows by block: memory holds a block and the two small matrices.

Everything is computed in fp32 and rounded once, to the type of the result. Tensors that stay as they are, are copied
as bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from io import FileIO

import torch

from zeroboard.checkpoints.merging import Change, Output, Pair, Place
from zeroboard.contract.problems import Problem
from zeroboard.errors import BrokenFile, Refused

BLOCK_BYTES = 1 << 20
"""Of a block in fp32: with what is computed beside it, it stays in the cache of a processor's core."""

COPY_BYTES = 1 << 20

TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def pieces(output: Output) -> Iterator[memoryview]:
    """The bytes of the tensor, in order; a piece is gone when the next one is asked for.

    Raises `Refused` where a number is not finite in the result's type, and `BrokenFile` where a file ends too soon.
    """
    if output.change.pair is None and output.start.tensor.dtype == output.entry.dtype and not _partly(output.change):
        yield from _copied(output.start)
        return
    kind = TYPES[output.entry.dtype]
    for block in _summed(output):
        rounded = block.to(kind)
        if not math.isfinite(float(rounded.sum(dtype=torch.float32))) and not bool(torch.isfinite(rounded).all()):
            _refuse(output, block)
        yield _bytes(rounded)


def load(place: Place) -> torch.Tensor:
    """A whole tensor, in fp32."""
    shape = place.tensor.shape
    raw = torch.empty(shape, dtype=TYPES[place.tensor.dtype])
    with place.path.open("rb", buffering=0) as stream:
        stream.seek(place.tensor.start)
        _fill(stream, _bytes(raw), place)
    return raw.float()


def _partly(change: Change) -> bool:
    return change.values is not None or change.bias is not None


def _copied(place: Place) -> Iterator[memoryview]:
    at, end = place.tensor.start, place.tensor.end
    buffer = memoryview(bytearray(min(COPY_BYTES, end - at)))
    with place.path.open("rb", buffering=0) as stream:
        stream.seek(at)
        while at < end:
            piece = buffer[: min(len(buffer), end - at)]
            _fill(stream, piece, place)
            yield piece
            at += len(piece)


def _summed(output: Output) -> Iterator[torch.Tensor]:
    """Blocks of rows of the result in fp32 (a vector is one block)."""
    change, shape = output.change, output.entry.shape
    product = _Product(change.pair) if change.pair is not None else None
    lengths = product.lengths(output) if product is not None else None
    trained = load(change.values) if change.values is not None else None
    bias = load(change.bias[0]) * change.bias[1] if change.bias is not None else None
    for first, block in _blocks(output.start, shape):
        if product is not None:
            product.add(block, first)
        if lengths is not None:
            block.mul_(lengths if product.transposed else lengths[first : first + len(block)])  # type: ignore[union-attr]
        if bias is not None:
            block.add_(bias)
        if trained is not None:
            for place, row in enumerate(change.rows):
                if first <= row < first + len(block):
                    block[row - first] = trained[place]
        yield block


def _blocks(place: Place, shape: tuple[int, ...]) -> Iterator[tuple[int, torch.Tensor]]:
    """Number of the first row, and rows in fp32. The block may be changed, and is reused."""
    if len(shape) < 2:
        yield 0, load(place)
        return
    width = math.prod(shape[1:])
    rows = max(1, BLOCK_BYTES // (4 * max(width, 1)))
    block = torch.empty((min(rows, shape[0]), *shape[1:]))
    raw = torch.empty_like(block, dtype=TYPES[place.tensor.dtype])
    with place.path.open("rb", buffering=0) as stream:
        stream.seek(place.tensor.start)
        for first in range(0, shape[0], rows):
            count = min(rows, shape[0] - first)
            _fill(stream, _bytes(raw[:count]), place)
            yield first, block[:count].copy_(raw[:count])


class _Product:
    """The scaled product of a pair, as it lies in the matrix that it is added to."""

    def __init__(self, pair: Pair) -> None:
        a, b = load(pair.a), load(pair.b)
        self.left, self.right = (a.T.contiguous(), b.T.contiguous()) if pair.transposed else (b, a)
        self.transposed = pair.transposed
        self._scale = pair.scale
        self._magnitude = pair.magnitude

    def add(self, block: torch.Tensor, first: int) -> None:
        """To rows from number `first` on."""
        block.addmm_(self.left[first : first + len(block)], self.right, alpha=self._scale)

    def lengths(self, output: Output) -> torch.Tensor | None:
        """DoRA: what each row of the sum (each column where transposed) is multiplied by; None without DoRA."""
        if self._magnitude is None:
            return None
        magnitude = load(self._magnitude).flatten()
        squares: list[torch.Tensor] = []
        for first, block in _blocks(output.start, output.entry.shape):
            self.add(block, first)
            squares.append(block.square().sum(0 if self.transposed else 1, dtype=torch.float64))
        total = torch.stack(squares).sum(0) if self.transposed else torch.cat(squares)
        factor = magnitude / total.sqrt().float()
        return factor if self.transposed else factor.unsqueeze(1)


def _fill(stream: FileIO, view: memoryview, place: Place) -> None:
    done = 0
    while done < len(view):
        got = stream.readinto(view[done:])
        if not got:
            size = place.path.stat().st_size
            raise BrokenFile("check.size.cut", names=place.path.name, size=size, promised=place.tensor.end)
        done += got


def _bytes(tensor: torch.Tensor) -> memoryview:
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def _refuse(output: Output, block: torch.Tensor) -> None:
    """The sum of the block is not finite: because of its numbers, or of their rounding to a type too narrow."""
    narrow = bool(torch.isfinite(block).all())
    says = "merge.overflow" if narrow else "merge.not-finite"
    raise Refused(
        [Problem(code="model-unsupported", says=says, params={"name": output.entry.name, "dtype": output.entry.dtype})]
    )
