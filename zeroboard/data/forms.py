"""What a file is by its first bytes, whatever its name: the form in which it holds records, or what it is instead."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any, Literal

from zeroboard.data.lines import read_lines
from zeroboard.data.records import Fault
from zeroboard.data.tables import Table, find_table
from zeroboard.data.values import first_value

Form = Literal["array", "lines", "objects", "prose"]

HEAD = 1 << 20
"""Bytes that are looked at."""
LINES = 20
"""Lines that are looked at."""

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "zip / xlsx / docx"),
    (b"PK\x05\x06", "zip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"7z\xbc\xaf", "7z"),
    (b"Rar!", "rar"),
    (b"%PDF", "PDF"),
    (b"ARROW1", "Arrow"),
    (b"SQLite format 3", "SQLite"),
    (b"\xd0\xcf\x11\xe0", "Excel / Word"),
    (b"\x80\x02", "pickle"),
    (b"\x80\x03", "pickle"),
    (b"\x80\x04", "pickle"),
    (b"\x80\x05", "pickle"),
    (b"GGUF", "GGUF"),
    (b"\x89PNG", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x7fELF", "ELF"),
    (b"version https://git-lfs", "Git LFS pointer"),
)
_MARKUP = re.compile(rb"<(?:!doctype|!--|\?xml|html|head|body|svg|rss)\b", re.IGNORECASE)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def other_kind(head: bytes) -> str | None:
    """What it is instead of text in one byte a letter or more, or None."""
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    if head[257:262] == b"ustar":
        return "tar"
    return "HTML / XML" if _MARKUP.match(head.lstrip()) else None


def is_binary(head: bytes) -> bool:
    """Whether the start of what should be UTF-8 holds what no text does."""
    return len(_CONTROL.findall(head[:4096])) > len(head[:4096]) // 100


def find_form(head: bytes, *, named_table: bool) -> Form | Table | Fault:
    """The form of a text whose first bytes (in UTF-8, at least one of them no white space) these are."""
    start = head.lstrip()[:1]
    if start == b"[":
        return "array"
    values = list(_first_lines(head))
    if any(isinstance(value, dict) for value in values):
        return "lines"
    if start == b"{":
        found = first_value(head)
        if isinstance(found, dict) or (len(head) >= HEAD and found is None):
            return "objects"
        return Fault(code="not-json", says="data.not-json.file")
    if values and all(isinstance(value, (str, int, float)) for value in values):
        return Fault(code="unknown-format", says="data.unknown-format.no-object")
    text = head.decode("utf-8", "replace")
    return find_table(text.lstrip("\r\n"), named=named_table) or "prose"


def _first_lines(head: bytes) -> Iterator[Any]:
    """What the first lines that are not blank hold, as far as they are JSON."""
    cut = head[: head.rindex(b"\n") + 1] if len(head) >= HEAD and b"\n" in head else head
    for record in read_lines(io.BytesIO(cut)):
        if record.row > LINES:
            return
        yield record.value if record.broken is None else None
