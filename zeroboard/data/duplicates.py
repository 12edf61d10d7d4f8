"""Which rows are copies of an earlier one: a digest a row, in memory while they are few, on the disk when many.

Digests are kept in buckets by their first bits, so that at the end one bucket at a time is looked through.
"""

from __future__ import annotations

import tempfile
from array import array
from hashlib import blake2b
from pathlib import Path

BUCKETS = 256
IN_MEMORY = 1 << 21
"""Rows whose digests are held in memory (16 bytes each)."""


def digest(text: bytes) -> int:
    """64 bits that stand for a text: among a hundred million rows, two that differ share them once in 3,700 files."""
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")


class Duplicates:
    """Takes digests of rows in order and tells the later copies. A context: its files go when it is left."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._room = self._in_memory = in_memory
        self._buckets = [array("Q") for _ in range(BUCKETS)]
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Duplicates:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, row: int, found: int) -> None:
        """Row numbers must grow."""
        bucket = self._buckets[found & 255]
        bucket.append(found)
        bucket.append(row)
        self._room -= 1
        if not self._room:
            self._spill()

    def later(self, most: int) -> tuple[int, tuple[int, ...]]:
        """How many rows repeat an earlier one, and the first `most` of them."""
        count, rows = 0, list[int]()
        for number, bucket in enumerate(self._buckets):
            seen: set[int] = set()
            values = self._spilled(number)
            values.extend(bucket)
            for at in range(0, len(values), 2):
                if values[at] in seen:
                    count += 1
                    rows.append(values[at + 1])
                seen.add(values[at])
            rows = sorted(rows)[:most]
        return count, tuple(rows)

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="zeroboard-rows-")
        for number, bucket in enumerate(self._buckets):
            with (Path(self._folder.name) / str(number)).open("ab") as file:
                bucket.tofile(file)
            del bucket[:]
        self._room = self._in_memory

    def _spilled(self, number: int) -> array[int]:
        values = array("Q")
        if self._folder is not None:
            path = Path(self._folder.name) / str(number)
            with path.open("rb") as file:
                values.fromfile(file, path.stat().st_size // values.itemsize)
        return values
