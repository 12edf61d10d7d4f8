"""Plain text: paragraphs that blank lines part, or, in a text without any, its lines; each a record with a `text`."""

from __future__ import annotations

import io
from collections.abc import Generator

from zeroboard.data.records import LARGEST_ROW, Broken, Record


def has_paragraphs(head: str) -> bool:
    """Whether blank lines stand between other lines."""
    return any(not line.strip() for line in head.strip().split("\n"))


def read_prose(stream: io.BufferedIOBase, *, paragraphs: bool) -> Generator[Record, None, None]:
    """The records of a text in UTF-8."""
    row, size, part = 0, 0, list[bytes]()
    while line := stream.readline(LARGEST_ROW):
        blank = not line.strip()
        if part and (blank or not paragraphs or size + len(line) > LARGEST_ROW):
            row += 1
            yield _record(row, b"".join(part))
            part, size = [], 0
        if not blank:
            part.append(line)
            size += len(line)
    if part:
        yield _record(row + 1, b"".join(part))


def _record(row: int, text: bytes) -> Record:
    broken: Broken | None = None
    try:
        return Record(row, {"text": text.decode("utf-8").strip("\r\n")}, size=len(text))
    except UnicodeDecodeError:
        broken = "broken-character"
    return Record(row, text[:200].decode("utf-8", "replace"), broken)
