"""Reading JSON of every shape by its content: an array, one object a line, objects one behind the other.

Covered: what a file is, by its first bytes and never by its ending; a byte order mark; lines end at `\\n` only; a
broken line costs itself alone, a break in an array costs the file. Lines are read as a stream; the text of an array is
held in memory, its rows are not. Not covered yet: other encodings than UTF-8, CSV, Parquet, archives (they are named
and refused).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from zeroboard.contract.problems import Scalar
from zeroboard.errors import NotFound

OnProgress = Callable[[float], None]
"""Called now and then with the share that is done, 0 to 1."""

BOM = b"\xef\xbb\xbf"

_HEAD = 64 << 10
_PROGRESS_EVERY = 1000
_SPACE = re.compile(r"[ \t\r\n]*")

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"%PDF", "PDF"),
    (b"PAR1", "Parquet"),
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
    (b"version https://git-lfs", "Git LFS pointer"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a file as a whole is no data."""

    code: Literal["not-json", "not-a-data-file", "empty-file", "unknown-format"]
    says: str | None = None
    """Key of the sentence where it is not `data.<code>`."""
    params: dict[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a file turned out to be."""

    path: Path
    kind: Literal["array", "lines", "objects"] = "lines"
    bom: bool = False
    fault: Fault | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record, read or not."""

    row: int
    value: Any = None
    broken: Literal["not-json", "broken-character"] | None = None
    """Why it could not be read; None where it was."""
    fault: Fault | None = None
    """The file cannot be read on from here: the last record that comes."""


def open_source(path: Path) -> Source:
    """Look at a file's first bytes and say what it is. Raises `NotFound` where it is no file."""
    if not path.is_file():
        raise NotFound("error.data-not-found", path=str(path))
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
    bom = head.startswith(BOM)
    start = head.removeprefix(BOM).lstrip()
    if not start and path.stat().st_size <= len(head):
        return Source(path=path, bom=bom, fault=Fault(code="empty-file"))
    other = _other_kind(head, start)
    if other is not None:
        return Source(path=path, bom=bom, fault=Fault(code="not-a-data-file", params={"kind": other}))
    if start.startswith(b"["):
        return Source(path=path, bom=bom, kind="array")
    return _lines_or_objects(path, bom, start)


def records(source: Source, on_progress: OnProgress | None = None) -> Iterator[Record]:
    """The records of a file that has no fault, numbered from 1.

    A record that cannot be read comes with `broken`; one after which nothing more can be read comes with `fault`.
    """
    if source.kind == "lines":
        yield from _lines(source, on_progress)
    else:
        yield from _values(source, on_progress)


def _other_kind(head: bytes, start: bytes) -> str | None:
    """What it is instead of text, or None."""
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    if start[:1] == b"<":
        return "HTML / XML"
    if b"\0" in head:
        return "binary"
    return None


def _lines_or_objects(path: Path, bom: bool, start: bytes) -> Source:
    """Tell one object a line from objects one behind the other, and both from text that is no JSON at all."""
    if any(isinstance(value, dict) for value in _first_lines(path)):
        return Source(path=path, bom=bom, kind="lines")
    text = _text(path)
    if text is None:
        fault = Fault(code="not-json", says="data.not-json.encoding")
    else:
        at = _skip(text, 0)
        try:
            value, _ = json.JSONDecoder().raw_decode(text, at)
        except (ValueError, RecursionError):
            # a brace or bracket in front meant JSON; anything else (CSV, prose) is a format of its own
            if start[:1] == b"{":
                fault = Fault(code="not-json", says="data.not-json.file")
            else:
                fault = Fault(code="unknown-format", says="data.unknown-format.no-json")
        else:
            if isinstance(value, dict):
                return Source(path=path, bom=bom, kind="objects")
            fault = Fault(code="unknown-format", says="data.unknown-format.no-object")
    return Source(path=path, bom=bom, fault=fault)


def _first_lines(path: Path, count: int = 20) -> Iterator[Any]:
    """What the first lines that are not blank hold, as far as they are JSON."""
    with path.open("rb") as stream:
        for number, line in enumerate(line for line in stream if line.strip()):
            if number == count:
                return
            yield _parse(line.removeprefix(BOM))[0]


def _parse(line: bytes) -> tuple[Any, Literal["not-json", "broken-character"] | None]:
    """A line's value, or why there is none."""
    try:
        return json.loads(line.decode("utf-8")), None
    except UnicodeDecodeError:
        return None, "broken-character"
    except (ValueError, RecursionError):  # also a number of thousands of digits, and nesting thousands deep
        return None, "not-json"


def _lines(source: Source, on_progress: OnProgress | None) -> Iterator[Record]:
    size = max(source.path.stat().st_size, 1)
    row = seen = 0
    with source.path.open("rb") as stream:
        for line in stream:
            seen += len(line)
            line = line.removeprefix(BOM).strip() if row == 0 else line.strip()
            if not line:
                continue
            row += 1
            value, broken = _parse(line)
            yield Record(row=row, value=value, broken=broken)
            if on_progress is not None and row % _PROGRESS_EVERY == 0:
                on_progress(seen / size)
    if on_progress is not None:
        on_progress(1.0)


def _text(path: Path) -> str | None:
    """The whole file as text; None where it is no UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _values(source: Source, on_progress: OnProgress | None) -> Iterator[Record]:
    """The values of an array, or of objects one behind the other, decoded one at a time."""
    text = _text(source.path)
    if text is None:
        yield Record(row=1, fault=Fault(code="not-json", says="data.not-json.encoding"))
        return
    array = source.kind == "array"
    decode = json.JSONDecoder().raw_decode
    at = _skip(text, 0) + array
    row = 0
    while (at := _skip(text, at)) < len(text):
        if array and text[at] == "]" and row == 0:
            break
        row += 1
        try:
            value, at = decode(text, at)
        except (ValueError, RecursionError) as error:
            yield _break(text, row, error.pos if isinstance(error, json.JSONDecodeError) else at)
            return
        yield Record(row=row, value=value)
        if on_progress is not None and row % _PROGRESS_EVERY == 0:
            on_progress(at / len(text))
        if not array:
            continue
        at = _skip(text, at)
        if text[at : at + 1] == "]":
            break
        if text[at : at + 1] != ",":
            yield _break(text, row + 1, at)
            return
        at += 1
    else:
        if array:  # the text ended without its bracket
            yield _break(text, row + 1, len(text))
            return
    if array and _skip(text, at + 1) < len(text):
        yield _break(text, row + 1, _skip(text, at + 1))
        return
    if on_progress is not None:
        on_progress(1.0)


def _break(text: str, row: int, at: int) -> Record:
    line = text.count("\n", 0, at) + 1
    return Record(row=row, fault=Fault(code="not-json", says="data.not-json.array", params={"row": row, "line": line}))
