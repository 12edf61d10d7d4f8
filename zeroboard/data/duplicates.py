"""Which rows are copies of an earlier one: a digest a row, in memory while they are few, on the disk when many.

On the disk they lie in buckets by their last bits, so that at the end one bucket at a time is looked through. Rows that
are only measured come last: a copy of one that is trained on is told apart from a copy among themselves.
"""

from __future__ import annotations

import tempfile
from array import array
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class Copies:
    """Rows that repeat an earlier one."""

    count: int = 0
    rows: list[int] = field(default_factory=list)
    """The first of them."""

    def cut(self, most: int) -> None:
        """Keep the first rows alone; they may have come in any order."""
        self.rows = sorted(self.rows)[:most]


class Duplicates:
    """Takes digests of rows in order and tells the later copies. A context: its files go when it is left."""

    def __init__(self, most: int, in_memory: int = IN_MEMORY) -> None:
        self.trained = Copies()
        """Among the rows that are trained on."""
        self.measured = Copies()
        """Among the rows that are measured, of those that are not trained on."""
        self.overlap = Copies()
        """Rows that are measured and trained on as well."""
        self._most = most
        self._in_memory = in_memory
        self._seen: set[int] = set()
        self._later: set[int] = set()
        """Of the rows that are measured."""
        self._buckets = [array("Q") for _ in range(BUCKETS)]
        self._waiting = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Duplicates:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, row: int, found: int, *, measured: bool = False) -> None:
        """Row numbers must grow, from 1; rows that are measured come after all others, numbered anew."""
        if self._folder is not None:
            self._keep(found, row, measured)
            return
        self._meet(row, found, measured, self._seen, self._later)
        if len(self._seen) + len(self._later) >= self._in_memory:
            self._move_to_disk()

    def finish(self) -> None:
        """All that there is to tell is told then."""
        if self._folder is None:
            return
        self._write()
        for number in range(BUCKETS):
            self._look_through(number)
            for copies in (self.trained, self.measured, self.overlap):
                copies.cut(self._most)

    def _meet(self, row: int, found: int, measured: bool, seen: set[int], later: set[int]) -> None:
        """A row against those that came earlier."""
        if found in seen:
            copies = self.overlap if measured else self.trained
        elif measured and found in later:
            copies = self.measured
        else:
            (later if measured else seen).add(found)
            return
        copies.count += 1
        if self._folder is not None or len(copies.rows) < self._most:
            copies.rows.append(row)

    def _move_to_disk(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="zeroboard-rows-")
        for found in self._seen:
            self._keep(found, 0, measured=False)
        for found in self._later:
            self._keep(found, 0, measured=True)
        self._seen, self._later = set(), set()

    def _keep(self, found: int, row: int, measured: bool) -> None:
        bucket = self._buckets[found % BUCKETS]
        bucket.append(found)
        bucket.append(2 * row + measured)
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
        later: set[int] = set()
        for at in range(0, len(values), 2):
            row, measured = divmod(values[at + 1], 2)
            self._meet(row, values[at], bool(measured), seen, later)
