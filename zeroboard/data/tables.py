"""CSV and its kin: comma, tab, semicolon or bar; quotes, line breaks in cells; a broken record costs itself.

A quote that never closes would swallow every record after it: where a record cannot be read with its quotes, its first
line is refused, and reading goes on with the line after that.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from zeroboard.data.columns import mapping
from zeroboard.data.records import LARGEST_ROW, Broken, Record
from zeroboard.data.rows import recognise

DELIMITERS = (",", "\t", ";", "|")
_LOOKED_AT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """How a table is written."""

    delimiter: str
    columns: tuple[str, ...]
    """As its first line names them."""


def find_table(head: str, *, named: bool) -> Table | None:
    """The table whose first lines these are, None where it looks like none.

    A first line of known names makes a table; so do records that all have the same number of cells where the file is
    `named` so or cells stand in quotes, and then the names are those of its first line, which nobody may know.
    """
    lines = head.splitlines(keepends=True) if "\n" in head else [head]
    for delimiter in DELIMITERS:
        names = _cells(lines[0], delimiter)
        if len(names) > (0 if named and delimiter == "," else 1) and _is_known(names):
            return Table(delimiter=delimiter, columns=_apart(names))
    for delimiter in DELIMITERS:
        records = [cells for cells in _sample(head, delimiter) if cells]
        widths = {len(cells) for cells in records}
        quoted = f'{delimiter}"' in head or head.startswith('"')
        if len(records) > 1 and len(widths) == 1 and widths != {1} and (named or quoted or delimiter in "\t;|"):
            return Table(delimiter=delimiter, columns=_apart(records[0]))
    return None


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def _sample(head: str, delimiter: str) -> list[list[str]]:
    found: list[list[str]] = []
    try:
        for cells in csv.reader(io.StringIO(head, newline=""), delimiter=delimiter):
            found.append(cells)
            if len(found) == _LOOKED_AT:
                return found
    except csv.Error:
        return []
    return found[:-1] if len(found) > 2 else found  # the last one may be cut


def _is_known(names: Sequence[str]) -> bool:
    """Whether these columns make records of a format that is known."""
    row: dict[str, object] = dict.fromkeys(names, "")
    if recognise(row) != "unknown":
        return True
    found = mapping(names)
    renamed: dict[str, object] = {found.get(name, name): "" for name in names}
    return any(recognise({**renamed, key: []} if key in renamed else renamed) != "unknown" for key in _LISTS)


_LISTS = ("messages", "conversations")


def _apart(names: Sequence[str]) -> tuple[str, ...]:
    """Two columns of one name are kept apart."""
    found: list[str] = []
    for name in names:
        count, unique = 1, name
        while unique in found:
            count += 1
            unique = f"{name} ({count})"
        found.append(unique)
    return tuple(found)


class _TooLong(Exception):
    """A record goes on and on: a quote is open."""


class _Lines:
    """Lines of a text, of which those of the record that is being read can be had back."""

    def __init__(self, stream: io.TextIOBase) -> None:
        self._stream = stream
        self._back: list[str] = []
        self._size = 0
        self.taken: list[str] = []

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if self._size > LARGEST_ROW:
            raise _TooLong
        line = self._back.pop() if self._back else self._stream.readline(LARGEST_ROW)
        if not line:
            raise StopIteration
        self.taken.append(line)
        self._size += len(line)
        return line

    def done(self) -> None:
        """The record was read."""
        if len(self.taken) > 1 or self._size:
            self.taken = []
            self._size = 0

    def give_back(self) -> str:
        """All lines of this record but the first are read again; the first is returned."""
        first, *rest = self.taken
        self._back += reversed(rest)
        self.done()
        return first


def read_table(stream: io.BufferedReader, table: Table) -> Generator[Record, None, None]:
    """The records of a table; its first line is none. A value is a mapping from column to cell, every cell a text."""
    csv.field_size_limit(LARGEST_ROW)
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline="")
    try:
        yield from _records(_Lines(text), table)
    finally:
        text.detach()  # the stream is its owner's to close


def _records(lines: _Lines, table: Table) -> Generator[Record, None, None]:
    reader = csv.reader(lines, delimiter=table.delimiter, strict=True)
    row = -1  # the first line holds the names
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except (csv.Error, _TooLong):
            row += 1
            first = lines.give_back()
            reader = csv.reader(lines, delimiter=table.delimiter, strict=True)
            if row:
                yield Record(row, first[:200], "oversized-row" if len(first) >= LARGEST_ROW else "unbalanced-quotes")
            continue
        lines.done()
        if not cells:
            continue
        row += 1
        if row:
            yield _record(row, cells, table.columns)


def _record(row: int, cells: list[str], columns: tuple[str, ...]) -> Record:
    broken: Broken | None = None
    if len(cells) != len(columns):
        while len(cells) > len(columns) and not cells[-1]:
            cells.pop()
        broken = "ragged-row" if len(cells) != len(columns) else None
    joined = "".join(cells)
    if not joined.isascii() and any("\udc80" <= letter <= "\udcff" for letter in joined):
        broken = "broken-character"
    if broken is not None:
        return Record(row, " | ".join(cells)[:200], broken)
    return Record(row, dict(zip(columns, cells, strict=True)), size=len(joined))
