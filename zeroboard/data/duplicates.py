"""Which rows are copies of an earlier one: a digest a row, in memory while they are few, on the disk when many.

On the disk they lie in buckets by their last bits, so that at the end one bucket at a time is looked through.
"""

from __future__ import annotations

import tempfile
from array import array
from pathlib import Path

BUCKETS = 256
IN_MEMORY = 500_000
"""Digests that are held in memory, about 100 bytes each."""
_BUFFERED = 1 << 19
"""Numbers that wait to be written to the disk, 8 bytes each."""


def digest(value: object) -> int:
    """64 bits that stand for a value in this process: in a file of a hundred million rows two that differ share them
    with a chance of one in 3,700."""
    return hash(value) & 0xFFFF_FFFF_FFFF_FFFF


class Duplicates:
    """Takes digests of rows in order and tells the later copies. A context: its files go when it is left."""

    def __init__(self, most: int, in_memory: int = IN_MEMORY) -> None:
        self.count = 0
        self.rows: list[int] = []
        self._most = most
        self._in_memory = in_memory
        self._seen: set[int] = set()
        self._buckets = [array("Q") for _ in range(BUCKETS)]
        self._waiting = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Duplicates:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, row: int, found: int) -> None:
        """Row numbers must grow, from 1."""
        if self._folder is not None:
            self._keep(found, row)
        elif found in self._seen:
            self._tell(row)
        else:
            self._seen.add(found)
            if len(self._seen) >= self._in_memory:
                self._move_to_disk()

    def finish(self) -> tuple[int, tuple[int, ...]]:
        """How many rows repeat an earlier one, and the first of them."""
        if self._folder is not None:
            self._write()
            for number in range(BUCKETS):
                self._look_through(number)
                self.rows = sorted(self.rows)[: self._most]
        return self.count, tuple(self.rows)

    def _tell(self, row: int) -> None:
        self.count += 1
        if self._folder is not None or len(self.rows) < self._most:
            self.rows.append(row)

    def _move_to_disk(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="zeroboard-rows-")
        for found in self._seen:
            self._keep(found, 0)
        self._seen = set()

    def _keep(self, found: int, row: int) -> None:
        bucket = self._buckets[found % BUCKETS]
        bucket.append(found)
        bucket.append(row)
        self._waiting += 2
        if self._waiting >= _BUFFERED:
            self._write()

    def _write(self) -> None:
        assert self._folder is not None
        for number, bucket in enumerate(self._buckets):
            with (Path(self._folder.name) / str(number)).open("ab") as file:
                bucket.tofile(file)
            del bucket[:]
        self._waiting = 0

    def _look_through(self, number: int) -> None:
        """Tell the copies in a bucket; its rows are in order, but for those of the memory (row 0), which come first."""
        assert self._folder is not None
        path = Path(self._folder.name) / str(number)
        values = array("Q")
        with path.open("rb") as file:
            values.fromfile(file, path.stat().st_size // values.itemsize)
        seen: set[int] = set()
        for at in range(0, len(values), 2):
            if values[at] in seen:
                self._tell(values[at + 1])
            seen.add(values[at])
