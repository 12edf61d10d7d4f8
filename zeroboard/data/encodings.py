"""In what a text is written: by its mark, by zeros between its letters, or by a guess, which is told.

UTF-8 stays UTF-8 where a few characters of it are broken: they cost their rows and turn no other text into another
code page. Guessed are GB18030, in which Chinese letters come as pairs of high bytes, and cp1252, in which the letters
of western Europe stand alone between plain ones.
"""

from __future__ import annotations

import codecs
import io
import re
from dataclasses import dataclass

_MARKS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BLOCK = 1 << 20
_LOOKED_AT = 256 << 20
"""Bytes in which the first letter that is not plain is looked for."""

_WHOLE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
"""A letter of several bytes in UTF-8."""
_HIGH = re.compile(rb"[\x80-\xff]+")
_PAIR = re.compile(rb"[\xa1-\xf7][\xa1-\xfe]")
"""A letter of GB2312, the common part of GB18030."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """In what a file is written."""

    name: str = "utf-8"
    mark: bytes = b""
    """Its byte order mark."""
    guessed: bool = False


UTF8 = Encoding()


def find_encoding(stream: io.BufferedIOBase) -> Encoding | None:
    """In what the (unpacked) stream is written, reading as much of it as that takes; None: it is no text."""
    head = stream.read(_BLOCK)
    for mark, name in _MARKS:
        if head.startswith(mark):
            return Encoding(name=name, mark=mark)
    if b"\0" in head[:4096]:
        wide = _wide(head[:4096])
        return Encoding(name=wide, guessed=True) if wide else None
    seen = len(head)
    while head.isascii():
        head = stream.read(_BLOCK)
        seen += len(head)
        if not head or seen > _LOOKED_AT:
            return UTF8
    return _guess(head + stream.read(_BLOCK))


def _wide(head: bytes) -> str | None:
    """UTF-16 without a mark: plain letters have a zero on one side, always the same."""
    even, odd = head[::2].count(0), head[1::2].count(0)
    half = len(head) // 2
    if odd > half * 0.6 and not even:
        return "utf-16-le"
    return "utf-16-be" if even > half * 0.6 and not odd else None


def _guess(sample: bytes) -> Encoding:
    rest = _WHOLE.sub(b"", sample[:-3])  # the last letter may be cut
    broken = sum(len(run) for run in _HIGH.findall(rest))
    letters = len(_WHOLE.findall(sample))
    if broken <= letters:
        return UTF8
    runs = _HIGH.findall(sample[:-1])
    pairs = sum(2 * len(_PAIR.findall(run)) for run in runs)
    high = sum(map(len, runs))
    if pairs > 0.8 * high and _decodes(sample, "gb18030"):
        return Encoding(name="gb18030", guessed=True)
    return Encoding(name="cp1252" if _decodes(sample, "cp1252") else "latin-1", guessed=True)


def _decodes(sample: bytes, encoding: str) -> bool:
    """Whether the sample, which may end within a letter, is written in it, but for one letter in a hundred."""
    text = codecs.getincrementaldecoder(encoding)("replace").decode(sample)
    return text.count("\ufffd") <= sum(not letter.isascii() for letter in text) / 100 + 1
