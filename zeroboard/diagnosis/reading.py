"""Logs as lines: streamed, progress bars collapsed, colours taken away, bad bytes replaced, the rank's mark read off.

Memory is bounded by the longest piece that is kept of a line (`LINE_BYTES`), whatever the size of the log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from zeroboard.files import open_regular

CHUNK = 1 << 16
LINE_BYTES = 8192
"""Longer pieces are cut."""
MOST_FILES = 4096

_SUFFIXES = (".log", ".out", ".err", ".txt")
_RANK_FILE = re.compile(r"(?:global[_-]?)?rank[_-]?(\d+)", re.IGNORECASE)
_TORCHRUN_FILE = re.compile(r"(\d+)[/\\]std(?:err|out)\.log$")
"""What `torchrun --log-dir` makes: `attempt_0/3/stderr.log`."""
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07?|\x1b[@-Z\\-_]")
_MARK = re.compile(r"\[rank(\d{1,6})\]:(?: |(?=\[)|$)|\[default(\d{1,6})\]:|\[\d+,(\d{1,6})\]<std(?:err|out)>: ?")
"""torch's own mark, that of torchrun's tee and that of mpirun."""
_BAR = re.compile(r".{0,120}?\d{1,3}%\|[^|]*\|\s*\S+/\S+ \[[^\]]*\]")
"""A progress bar (tqdm)."""


class Line(NamedTuple):
    """A line of a log, or a piece of one that was drawn over by the next."""

    file: str
    number: int
    """From 1."""
    rank: int | None
    text: str
    """Plain, without the rank's mark; what it is indented by is kept."""
    bar: bool
    """It is a progress bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One file of a log."""

    path: Path
    name: str
    """What findings call it."""
    rank: int | None
    """Whose it is, as its name tells."""


def logs(place: Path) -> tuple[Log, ...]:
    """The logs at a place: the file, or those of a folder (with its folder `logs`), ranks first, in order."""
    if place.is_file():
        return (Log(path=place, name=place.name, rank=_rank(place.name)),)
    found = [path for folder in (place, place / "logs") if folder.is_dir() for path in folder.iterdir()]
    found += [path for path in place.rglob("std*.log") if _TORCHRUN_FILE.search(str(path))]
    named = {path.relative_to(place).as_posix(): path for path in found if path.is_file() and path.suffix in _SUFFIXES}
    made = [Log(path=path, name=name, rank=_rank(name)) for name, path in named.items()]
    return tuple(sorted(made, key=lambda log: (log.rank is None, log.rank or 0, log.name))[:MOST_FILES])


def lines(log: Log, last: int | None = None) -> Iterator[Line]:
    """The lines of a log, one after the other. `last`: only so many bytes at its end (numbers still count from 1).

    Raises `OSError`.
    """
    with open_regular(log.path) as stream:
        begin = 1 if last is None else _skip(stream, last)
        for number, piece in _pieces(stream, begin):
            text = piece.decode("utf-8", errors="replace")
            if "\x1b" in text:
                text = _COLOUR.sub("", text)
            rank = log.rank
            while text.startswith("[") and (mark := _MARK.match(text)):
                rank = int(mark.group(1) or mark.group(2) or mark.group(3))
                text = text[mark.end() :]
            bar = _BAR.match(text) if "%|" in text else None
            if bar is not None:
                yield Line(log.name, number, rank, bar.group(), True)
                # an exception is often written right behind the bar, which ends no line
                text = _after_bars(text[bar.end() :]).strip()
                if not text:
                    continue
            yield Line(log.name, number, rank, text, False)


def holds(text: str, words: tuple[str, ...]) -> bool:
    """One of the words is in the text. A plain loop: twice as fast as `any`, and it is asked of every line."""
    for word in words:  # noqa: SIM110 - see above
        if word in text:
            return True
    return False


def _rank(name: str) -> int | None:
    found = _TORCHRUN_FILE.search(name) or _RANK_FILE.match(Path(name).name)
    return int(found.group(1)) if found else None


def _skip(stream: BinaryIO, last: int) -> int:
    """Go to the beginning of a line about `last` bytes before the end; returns its number."""
    size = os.fstat(stream.fileno()).st_size
    number, left = 1, size - last
    while left > 0:
        chunk = stream.read(min(CHUNK, left))
        if not chunk:
            break
        number += chunk.count(b"\n")
        left -= len(chunk)
    if size > last:
        while rest := stream.readline(CHUNK):
            if rest.endswith(b"\n"):
                return number + 1
    return number


def _pieces(stream: BinaryIO, number: int) -> Iterator[tuple[int, bytes]]:
    """(number of the line, what stood there): of a line that was drawn over again and again, the last state of the bar
    and whatever was no bar."""
    held = b""
    while chunk := stream.read(CHUNK):
        rows = (held + chunk).split(b"\n")
        held = rows.pop()
        for row in rows:
            for piece in _frames(row):
                yield number, piece[:LINE_BYTES]
            number += 1
        if len(held) > LINE_BYTES:  # a line that does not end: what is drawn over may go
            done, drawn, held = held.rpartition(b"\r")
            for piece in _frames(done) if drawn else ():
                if b"%|" not in piece:
                    yield number, piece[:LINE_BYTES]
            held = held[:LINE_BYTES]
    for piece in _frames(held) if held else ():
        yield number, piece[:LINE_BYTES]


def _frames(row: bytes) -> list[bytes]:
    if b"\r" not in row:
        return [row]
    frames = [frame for frame in row.split(b"\r") if frame.strip()]
    bars = [n for n, frame in enumerate(frames) if b"%|" in frame and frame.rstrip().endswith(b"]")]
    drawn_over = set(bars[:-1])
    return [frame for n, frame in enumerate(frames) if n not in drawn_over]


def _after_bars(text: str) -> str:
    """What follows when several bars were written into one line."""
    while "%|" in text and (bar := _BAR.match(text)):
        text = text[bar.end() :]
    return text
