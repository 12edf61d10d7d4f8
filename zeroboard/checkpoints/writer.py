"""Writes safetensors files of any size as a stream: the header first, then the tensors, each where the header says.

All names, types and shapes are known before the first byte, so a tensor is asked for only when its turn comes, in
pieces of any size, and memory holds the pieces that are being written. Several tensors are written at a time. The index
of several shards comes last. The format is that of `zeroboard.headers`; names of files are those of transformers.
"""

from __future__ import annotations

import json
import math
import os
import struct
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from zeroboard.checkpoints.weights import INDEX
from zeroboard.files import MODE, to_json, write_atomic
from zeroboard.headers import ELEMENT_BYTES

SHARD_BYTES = 5_000_000_000
"""Where a file ends and the next begins, as transformers has it."""

Piece = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A tensor that will be written."""

    name: str
    dtype: str
    """As the format names it: `BF16`; one of `ELEMENT_BYTES`."""
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A file that will be written."""

    file: str
    entries: tuple[Entry, ...]


Read = Callable[[Entry], Iterable[Piece]]
"""Asked once for each tensor, in a thread of the writer: its bytes (row-major, little-endian), in pieces. A piece may
be reused once the next one is asked for."""


def plan_shards(
    entries: Iterable[Entry], *, shard_bytes: int = SHARD_BYTES, stem: str = "model", split: bool = True
) -> tuple[Shard, ...]:
    """Which tensors go into which file, in the order given; a tensor larger than `shard_bytes` has a file of its own.

    One file is `<stem>.safetensors`, several are `<stem>-00001-of-00002.safetensors`. `split` False: one file anyway.
    """
    groups: list[list[Entry]] = [[]]
    size = 0
    for entry in entries:
        if split and groups[-1] and size + entry.bytes > shard_bytes:
            groups.append([])
            size = 0
        groups[-1].append(entry)
        size += entry.bytes
    if len(groups) == 1:
        return (Shard(file=f"{stem}.safetensors", entries=tuple(groups[0])),)
    return tuple(
        Shard(file=f"{stem}-{number:05d}-of-{len(groups):05d}.safetensors", entries=tuple(group))
        for number, group in enumerate(groups, 1)
    )


def total_bytes(shards: Iterable[Shard]) -> int:
    """Of the tensors; headers add some hundred bytes for each of them."""
    return sum(entry.bytes for shard in shards for entry in shard.entries)


def write_shards(
    folder: Path,
    shards: Sequence[Shard],
    read: Read,
    *,
    metadata: Mapping[str, str] | None = None,
    workers: int = 2,
    on_bytes: Callable[[int], None] | None = None,
) -> None:
    """Write the files into a folder that nobody reads yet (see `whole_folder`), synced, and the index after them.

    `workers`: tensors that are asked for at a time. `on_bytes` is told how many bytes were written, one call at a time,
    from the writer's threads. Raises what `read` raises, `OSError`, and `ValueError` where a tensor's pieces are not as
    long as its entry says; files that were begun are then left as they are.
    """
    job = _Job(read, on_bytes)
    futures: list[Future[None]] = []
    with ThreadPoolExecutor(workers, thread_name_prefix="writer") as pool:
        try:
            for shard in shards:
                futures += _start(pool, job, folder / shard.file, shard, metadata or {"format": "pt"})
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BaseException:
            job.stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if len(shards) > 1:
        write_atomic(folder / INDEX, to_json(_index(shards)))


class _Job:
    """What the threads of one `write_shards` share."""

    def __init__(self, read: Read, on_bytes: Callable[[int], None] | None) -> None:
        self.read = read
        self.stop = threading.Event()
        self._on_bytes = on_bytes
        self._telling = threading.Lock()

    def write(self, path: Path, entry: Entry, start: int) -> None:
        """One tensor to its place in a file."""
        at, end = start, start + entry.bytes
        handle = os.open(path, os.O_WRONLY)
        try:
            for piece in self.read(entry):
                view = memoryview(piece).cast("B")
                if at + len(view) > end:
                    raise ValueError(f"{entry.name} is longer than its {entry.bytes} bytes")
                if self.stop.is_set():
                    return
                at += self._write_all(handle, view, at)
        finally:
            os.close(handle)
        if at != end:
            raise ValueError(f"{entry.name} has {at - start} bytes instead of {entry.bytes}")

    def _write_all(self, handle: int, view: memoryview, at: int) -> int:
        size = len(view)
        while view:
            done = os.pwrite(handle, view, at)
            view, at = view[done:], at + done
        if self._on_bytes is not None:
            with self._telling:
                self._on_bytes(size)
        return size


def _start(
    pool: ThreadPoolExecutor, job: _Job, path: Path, shard: Shard, metadata: Mapping[str, str]
) -> list[Future[None]]:
    """The header now, the tensors by and by."""
    # the widest types first, so that every tensor lies at a multiple of its element's width
    entries = sorted(shard.entries, key=lambda entry: -ELEMENT_BYTES[entry.dtype])
    header, starts = _header(entries, metadata)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    with os.fdopen(handle, "wb") as stream:
        stream.write(header)
    return [pool.submit(job.write, path, entry, start) for entry, start in zip(entries, starts, strict=True)]


def _header(entries: Sequence[Entry], metadata: Mapping[str, str]) -> tuple[bytes, list[int]]:
    """The first bytes of the file, and where each tensor begins in it."""
    table: dict[str, object] = {"__metadata__": dict(metadata)}
    at, offsets = 0, []
    for entry in entries:
        if entry.name in table:
            raise ValueError(f"{entry.name} twice")
        table[entry.name] = {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": [at, at + entry.bytes]}
        offsets.append(at)
        at += entry.bytes
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, [8 + len(text) + offset for offset in offsets]


def _index(shards: Sequence[Shard]) -> dict[str, object]:
    where = {entry.name: shard.file for shard in shards for entry in shard.entries}
    parameters = sum(math.prod(entry.shape) for shard in shards for entry in shard.entries)
    metadata = {"total_parameters": parameters, "total_size": total_bytes(shards)}
    return {"metadata": metadata, "weight_map": dict(sorted(where.items()))}
