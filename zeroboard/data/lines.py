"""JSON lines: one value a line, ended by `\\n` alone; a broken line costs itself."""

from __future__ import annotations

import io
from collections.abc import Generator

from zeroboard.data.parsing import parse
from zeroboard.data.records import LARGEST_ROW, Record


def read_lines(stream: io.BufferedIOBase) -> Generator[Record, None, None]:
    """The records of a stream of lines in UTF-8; blank lines are none."""
    row = 0
    readline = stream.readline
    while line := readline(LARGEST_ROW):
        if len(line) == LARGEST_ROW and not line.endswith(b"\n"):
            skip_line(stream)
            row += 1
            yield Record(row, line[:200].decode("utf-8", "replace"), "oversized-row")
            continue
        line = line.strip()
        if line:
            row += 1
            yield read_value(row, line)


def read_value(row: int, text: bytes) -> Record:
    """The record of one JSON text."""
    try:
        value, repeated = parse(text)
    except UnicodeDecodeError:
        return Record(row, text[:200].decode("utf-8", "replace"), "broken-character")
    except (ValueError, RecursionError):  # also nesting thousands deep
        return Record(row, text[:200].decode("utf-8", "replace"), "not-json")
    return Record(row, value, None, repeated, len(text))


def skip_line(stream: io.BufferedIOBase) -> None:
    """Go to the line's end, holding none of it."""
    while (piece := stream.readline(1 << 20)) and not piece.endswith(b"\n"):
        pass
