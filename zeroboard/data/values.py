"""A JSON array, or objects one behind the other: cut into its values as a stream, each parsed alone.

A break (a comma too many, a bracket that never closes) costs the file: what comes after it is unknown.
"""

from __future__ import annotations

import io
import re
from collections.abc import Generator
from dataclasses import dataclass

from zeroboard.data.parsing import parse
from zeroboard.data.records import LARGEST_ROW, Fault, Record

BLOCK = 1 << 20

_SPACE = re.compile(rb"[ \t\r\n]*+")
_FLAT = re.compile(rb'\{(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+\}', re.DOTALL)
"""An object that holds no other and no list, whole."""
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_TOKEN = re.compile(rb'[^"{}\[\]]*+(?:"(?:[^"\\]++|\\.)*+"|[{}\[\]])', re.DOTALL)
_SCALAR = re.compile(rb'[^,\[\]{}" \t\r\n]++')


class _Break(Exception):
    """The text cannot be cut into values from here on."""


@dataclass(slots=True)
class _Window:
    """The part of the stream that is in memory."""

    stream: io.BufferedIOBase
    text: bytes = b""
    at: int = 0
    line: int = 1
    """Line of the first byte of `text`."""
    ended: bool = False

    def more(self) -> bool:
        """Take in another block, letting go of what is behind `at`; False where nothing comes."""
        if self.ended:
            return False
        self.line += self.text.count(b"\n", 0, self.at)
        rest = self.text[self.at :]
        if len(rest) > LARGEST_ROW:
            raise _Break
        block = self.stream.read(max(BLOCK, len(rest)))  # doubling: a large value is gone through a few times only
        self.text, self.at = rest + block, 0
        self.ended = not block
        return not self.ended

    def skip(self) -> bytes:
        """Go past white space; the byte that comes then, empty at the end of the file."""
        while True:
            found = _SPACE.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if self.at < len(self.text):
                return self.text[self.at : self.at + 1]
            if not self.more():
                return b""

    def value(self) -> bytes:
        """Take the value that begins at `at`."""
        while True:
            end = _end(self.text, self.at, self.ended)
            if end is not None:
                found = self.text[self.at : end]
                self.at = end
                return found
            if self.ended:
                raise _Break
            self.more()

    def where(self) -> int:
        """The line of `at`, from 1."""
        return self.line + self.text.count(b"\n", 0, self.at)


def _end(text: bytes, at: int, ended: bool) -> int | None:
    """Where the value that begins at `at` ends; None where that is not in the text."""
    first = text[at : at + 1]
    if first == b"{" and (flat := _FLAT.match(text, at)):
        return flat.end()
    if first in b"{[":
        return _end_of_nested(text, at)
    if first == b'"':
        string = _STRING.match(text, at)
        return string.end() if string else None
    scalar = _SCALAR.match(text, at)
    if scalar is None:
        raise _Break
    return scalar.end() if ended or scalar.end() < len(text) else None


def _end_of_nested(text: bytes, at: int) -> int | None:
    depth = 0
    while token := _TOKEN.match(text, at):
        at = token.end()
        last = text[at - 1]
        if last in b"{[":
            depth += 1
        elif last in b"}]":
            depth -= 1
            if depth == 0:
                return at
    return None


def read_values(stream: io.BufferedIOBase, *, array: bool) -> Generator[Record, None, None]:
    """The values of an array, or those that stand one behind the other."""
    window = _Window(stream)
    row = 0
    try:
        if array:
            window.skip()
            window.at += 1
            if window.skip() == b"]":
                window.at += 1
                row += 1
                _nothing_behind(window)
                return
        while window.skip() or array:
            row += 1
            yield _record(row, window.value())
            if not array:
                continue
            mark = window.skip()
            window.at += 1
            if mark != b",":
                row += 1
                if mark != b"]":
                    raise _Break
                _nothing_behind(window)
                return
    except _Break:
        where = {"row": row, "line": window.where()}
        yield Record(row, fault=Fault(code="not-json", says="data.not-json.array", params=dict(where)))


def _record(row: int, text: bytes) -> Record:
    try:
        value, repeated = parse(text)
    except UnicodeDecodeError:
        return Record(row, text[:200].decode("utf-8", "replace"), "broken-character")
    except (ValueError, RecursionError):
        raise _Break from None
    return Record(row, value, None, repeated, len(text))


def _nothing_behind(window: _Window) -> None:
    if window.skip():
        raise _Break


def first_value(text: bytes) -> object:
    """The first value of a text that may hold more; None where it holds none that is whole."""
    window = _Window(io.BytesIO(text))
    try:
        if not window.skip():
            return None
        value: object = parse(window.value())[0]
    except (_Break, ValueError, RecursionError):
        return None
    return value
