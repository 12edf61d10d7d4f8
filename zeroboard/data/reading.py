"""The door to data files: what a file is, by its content and never by its name, and its records as a stream.

Covered: JSON as an array, one object a line or objects one behind the other; CSV with comma, tab, semicolon or bar;
Parquet; plain text; each of the texts also in gzip or zstd, in UTF-8, UTF-16, GB18030 or cp1252. A broken record costs
itself where its end can be told, else the file. No file is held in memory, whatever its form. Not covered: archives,
spreadsheets and pages, which are named and refused.
"""

from __future__ import annotations

import io
import stat
import zlib
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from zeroboard.data.encodings import UTF8, Encoding, find_encoding
from zeroboard.data.excerpts import harmless
from zeroboard.data.folders import is_closed
from zeroboard.data.forms import HEAD, Form, find_form, is_binary, other_kind
from zeroboard.data.lines import read_lines
from zeroboard.data.parquet import read_parquet
from zeroboard.data.prose import has_paragraphs, read_prose
from zeroboard.data.records import Fault, OnProgress, Record, damaged
from zeroboard.data.streams import open_stream, packing
from zeroboard.data.tables import Table, read_table
from zeroboard.data.values import read_values
from zeroboard.errors import NotFound

_TABLE_ENDINGS = (".csv", ".tsv", ".tab")
PACKED = "gzip / zstd"
_PARQUET = b"PAR1"
BREAKS = (OSError, EOFError, zlib.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a file turned out to be."""

    path: Path
    form: Form | Table | None = None
    """None: Parquet, or nothing (see `fault`)."""
    encoding: Encoding = UTF8
    paragraphs: bool = False
    """Plain text whose records are paragraphs, not lines."""
    fault: Fault | None = None

    @property
    def bom(self) -> bool:
        return bool(self.encoding.mark)

    @property
    def delimiter(self) -> str | None:
        """What parts the cells, where that is another mark than the name or habit says."""
        if not isinstance(self.form, Table):
            return None
        usual = "\t" if self.path.name.lower().endswith((".tsv", ".tab")) else ","
        return self.form.delimiter if self.form.delimiter != usual else None


def open_source(path: Path) -> Source:
    """Look at a file's first bytes and say what it is. Raises `NotFound` where there is none."""
    try:
        facts = path.stat()
    except (OSError, ValueError) as error:
        raise NotFound("error.data-not-found", path=str(path)) from error
    if not stat.S_ISREG(facts.st_mode) or is_closed(path):
        return Source(path=path, fault=Fault(code="path-refused", params={"path": harmless(str(path))}))
    with path.open("rb") as file:
        if file.read(len(_PARQUET)) == _PARQUET:
            return Source(path=path)
    try:
        return _look(Source(path=path))
    except BREAKS as error:
        if isinstance(error, PermissionError):
            raise
        return Source(path=path, fault=damaged(PACKED, error))


def records(source: Source, on_progress: OnProgress | None = None) -> Generator[Record, None, None]:
    """The records of a file that has no fault, numbered from 1.

    A record that cannot be read comes with `broken`; one after which nothing more can be read comes with `fault`.
    """
    if source.form is None:
        yield from read_parquet(source.path, on_progress)
    elif packing(source.path) is None:
        yield from _records(source, on_progress)
    else:
        row = 0
        try:
            for record in _records(source, on_progress):
                row = record.row
                yield record
        except BREAKS as error:
            yield Record(row + 1, fault=damaged(PACKED, error))
    if on_progress is not None:
        on_progress(1.0)


def _records(source: Source, on_progress: OnProgress | None) -> Generator[Record, None, None]:
    encoding = source.encoding
    with (
        open_stream(source.path, encoding.name, bom=encoding.mark, on_progress=on_progress) as stream,
        closing(_reader(source, stream)) as found,
    ):
        yield from found


def _reader(source: Source, stream: io.BufferedReader) -> Generator[Record, None, None]:
    """The reader of the file's form, on its text."""
    if isinstance(source.form, Table):
        return read_table(stream, source.form)
    if source.form == "lines":
        return read_lines(stream)
    if source.form == "prose":
        return read_prose(stream, paragraphs=source.paragraphs)
    return read_values(stream, array=source.form == "array")


def _look(source: Source) -> Source:
    """Fill in encoding and form, or the fault."""
    with open_stream(source.path) as stream:
        head = stream.read(512)
    other = other_kind(head)
    if other is not None:
        return replace(source, fault=Fault(code="not-a-data-file", params={"kind": other}))
    with open_stream(source.path) as stream:
        encoding = find_encoding(stream)
    if encoding is None:
        return replace(source, fault=Fault(code="not-a-data-file", params={"kind": "binary"}))
    source = replace(source, encoding=encoding)
    with open_stream(source.path, encoding.name, bom=encoding.mark) as stream:
        head = stream.read(HEAD)
        while len(head) == HEAD and not head.strip():  # nothing but white space so far
            head = stream.read(HEAD)
    if not head.strip():
        return replace(source, fault=Fault(code="empty-file"))
    other = "binary" if is_binary(head) else other_kind(head)
    if other is not None:
        return replace(source, fault=Fault(code="not-a-data-file", params={"kind": other}))
    return _formed(source, head)


def _formed(source: Source, head: bytes) -> Source:
    name = source.path.name.lower().removesuffix(".gz").removesuffix(".zst")
    form = find_form(head, named_table=name.endswith(_TABLE_ENDINGS))
    if isinstance(form, Fault):
        return replace(source, fault=form)
    paragraphs = form == "prose" and has_paragraphs(head.decode("utf-8", "replace"))
    return replace(source, form=form, paragraphs=paragraphs)
