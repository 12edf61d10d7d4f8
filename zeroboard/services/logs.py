"""The logs of a run, from its files: the last lines, or those that are looked for; only what is new is read."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from zeroboard.errors import NotFound
from zeroboard.files import open_regular
from zeroboard.paths import Paths
from zeroboard.services import loglines
from zeroboard.services.loglines import Level, Unfinished

TAIL_BYTES = 1 << 19
"""Most bytes at the end of a log that are read for its last lines."""
BLOCK = 1 << 20
"""Bytes that are read at a time."""
LINES = 500
"""Lines that are kept."""
ASKED = 8
"""Questions to one log that are kept, each with what it found so far."""

_RANK = re.compile(r"rank_(\d+)\.log")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTail:
    """The last lines of a log, or the last of those that were looked for."""

    text: str
    """The lines: progress bars collapsed to their last state, colours taken away, bad bytes replaced, long ones cut."""
    numbers: tuple[int, ...]
    """Of each of the lines the number in the file, from 1; empty where only the end of the file was read."""
    lines: int
    """How many lines that is."""
    count: int
    """How many there are in the whole file of those that were looked for; without a question as `lines`."""
    size: int
    """Bytes of the whole file."""
    chosen: bool = False
    """Only some kind of line was asked for."""


def names(paths: Paths, run_id: str) -> tuple[str, ...]:
    """The logs that are there: `launcher`, `supervisor`, `rank 0`, … A link is none: it would lead elsewhere."""
    folder = paths.run(run_id).logs
    found = {p.name for p in folder.glob("*.log") if p.is_file() and not p.is_symlink()} if folder.is_dir() else set()
    ranks = sorted(int(m.group(1)) for name in found if (m := _RANK.fullmatch(name)))
    others = [name for name in ("launcher", "supervisor", "verbs") if f"{name}.log" in found]
    return (*(f"rank {n}" for n in ranks), *others)


def path(paths: Paths, run_id: str, name: str) -> Path:
    """The file of a log by its name; raises `NotFound` for a name that `names` does not give."""
    if name not in names(paths, run_id):
        raise NotFound("error.log-not-found", run=run_id, log=name)
    return paths.run(run_id).logs / f"{name.replace(' ', '_')}.log"


def stamp(paths: Paths, run_id: str, name: str) -> tuple[int, int]:
    """Size and time of change of a log, so that only one that grew is read again; raises `NotFound`."""
    facts = path(paths, run_id, name).stat()
    return facts.st_size, facts.st_mtime_ns


def tail(
    paths: Paths, run_id: str, name: str, lines: int = LINES, *, search: str = "", level: Level = "all"
) -> LogTail:
    """One look at a log without a follower; see `LogFollower.look`. Raises `NotFound`."""
    return LogFollower(path(paths, run_id, name), lines).look(search, level)


class LogFollower:
    """Follows one log for any number of lookers, and for each question only what is new. May be called by threads."""

    def __init__(self, file: Path, lines: int = LINES) -> None:
        self._file = file
        self._lines = lines
        self._readers: dict[tuple[str, Level], _Reader] = {}
        self._lock = threading.Lock()

    def look(self, search: str = "", level: Level = "all") -> LogTail:
        """The last lines; with a question the last of those that hold `search`, whatever its case, and are of `level`.

        For its last lines only the end of a log is read, a question goes through all of it, once. The same object comes
        back as long as the file does not change. Raises `NotFound` where it is gone.
        """
        with self._lock:
            key = (search.casefold(), level)
            reader = self._readers.pop(key, None) or _Reader(search, level, self._lines)
            self._readers[key] = reader
            while len(self._readers) > ASKED:
                self._readers.pop(next(iter(self._readers)))
        try:
            with reader.lock:
                return reader.read(self._file)
        except FileNotFoundError as error:
            raise NotFound("error.path-not-found", path=str(self._file)) from error


class _Reader:
    """One question to one log."""

    def __init__(self, search: str, level: Level, lines: int) -> None:
        self._search = search.casefold()
        self._level: Level = level
        self._chosen = bool(search) or level != "all"
        self._hints = _hints(search, level)
        self._lines = lines
        self.lock = threading.Lock()
        self._begin(0)

    def _begin(self, offset: int) -> None:
        self._offset = offset
        self._stamp: tuple[int, int] | None = None
        self._number = 0
        """Lines that were gone through."""
        self._count = 0
        self._kept: deque[tuple[int, bytes, int]] = deque(maxlen=self._lines)
        """(number, bytes, bytes that were too much) of the last lines that were found."""
        self._texts: dict[int, str] = {}
        """Number → what is shown of a kept line, so that each is made once."""
        self._open = Unfinished()
        self._within = False
        """The last line stands in a traceback."""
        self._made: LogTail | None = None

    def read(self, file: Path) -> LogTail:
        facts = file.stat()
        stamp = (facts.st_size, facts.st_mtime_ns)
        if self._made is not None and self._stamp == stamp:
            return self._made
        with open_regular(file) as stream:
            size = stream.seek(0, os.SEEK_END)
            if size < self._offset:  # replaced by a shorter one
                self._begin(0)
            if not self._chosen and size - self._offset > TAIL_BYTES:
                self._begin(_line_start(stream, size - TAIL_BYTES))
            stream.seek(self._offset)
            while block := stream.read(min(BLOCK, size - self._offset)):
                self._offset += len(block)
                self._take(block)
        self._stamp = stamp
        self._made = self._tail(size)
        return self._made

    def _take(self, block: bytes) -> None:
        first, last = block.find(b"\n"), block.rfind(b"\n")
        if first < 0:
            self._open.feed(block)
            return
        self._open.feed(block[:first])
        self._number += 1
        raw, dropped = self._open.line()
        self._open.clear()
        if not self._chosen or self._fits(loglines.plain(raw, dropped)):
            self._keep(self._number, raw, dropped)
        whole = block[first + 1 : last + 1]
        if self._chosen:
            self._choose(whole)
        else:
            self._keep_last(whole)
        self._open.feed(block[last + 1 :])

    def _keep_last(self, whole: bytes) -> None:
        """The last lines of a piece of whole lines, the others only counted."""
        count = whole.count(b"\n")
        ends = whole.split(b"\n")[:-1][-self._lines :]
        for number, line in enumerate(ends, self._number + count - len(ends) + 1):
            self._keep(number, *loglines.shown(line))
        self._number += count

    def _choose(self, whole: bytes) -> None:
        """The lines of a piece of whole lines that are looked for."""
        if b"\x1b[" in whole:
            whole = loglines.COLOURS.sub(b"", whole)
        counted, end = 0, 0
        for begin in self._candidates(whole):
            while self._within and end < begin:  # a traceback goes on until its exception
                end = self._judge(whole, end)
                counted, self._number = end, self._number + 1
            if begin < end or begin == len(whole):
                continue
            self._number += whole.count(b"\n", counted, begin)
            end = self._judge(whole, begin)
            counted, self._number = end, self._number + 1
        self._number += whole.count(b"\n", counted)

    def _judge(self, whole: bytes, begin: int) -> int:
        """Keeps the line that begins there if it is looked for; returns where the next one begins."""
        end = whole.index(b"\n", begin)
        raw, dropped = loglines.shown(whole[begin:end])
        certain = self._level == "all" and self._hints is not None and b"\x1b" not in raw and len(raw) == end - begin
        if certain or self._fits(loglines.plain(raw)):
            self._keep(self._number + 1, raw, dropped)
        return end + 1

    def _candidates(self, whole: bytes) -> Iterator[int]:
        """Where the lines begin that may be looked for, in order; also the place after the last one."""
        if self._hints is None:
            begin = 0
            while begin < len(whole):
                yield begin
                begin = whole.index(b"\n", begin) + 1
        else:
            lowered = whole.lower()
            found = _holding(lowered, (*self._hints, b"\x1b"))  # colours may stand within a word
            if self._level != "all":
                found |= {_start(lowered, match.start()) for match in loglines.GLOG.finditer(lowered)}
            yield from sorted(found)
        if self._within:
            yield len(whole)

    def _fits(self, text: str) -> bool:
        """Whether a line is looked for; follows the tracebacks."""
        if self._level == "all":
            return self._search in text.casefold()
        fits = loglines.of_level(text, self._level, within=self._within)
        self._within = loglines.begins_traceback(text) or (self._within and loglines.in_traceback(text))
        return fits and self._search in text.casefold()

    def _keep(self, number: int, raw: bytes, dropped: int) -> None:
        self._kept.append((number, raw, dropped))
        self._count += 1

    def _tail(self, size: int) -> LogTail:
        known = self._texts
        kept = [(n, known[n] if n in known else loglines.plain(raw, dropped)) for n, raw, dropped in self._kept]
        self._texts = dict(kept)
        raw, dropped = self._open.line()
        count = self._count
        if raw:  # the line that is being written
            text = loglines.plain(raw, dropped)
            within = self._within
            if not self._chosen or self._fits(text):
                kept, count = [*kept, (self._number + 1, text)][-self._lines :], count + 1
            self._within = within
        return LogTail(
            text="\n".join(text for _, text in kept),
            numbers=tuple(number for number, _ in kept) if self._chosen else (),
            lines=len(kept),
            count=count if self._chosen else len(kept),
            size=size,
            chosen=self._chosen,
        )


def _hints(search: str, level: Level) -> tuple[bytes, ...] | None:
    """In lower case, what a line that is looked for holds at least one of; None: that cannot be told from bytes."""
    if level != "all":
        return loglines.HINTS[level]
    folded = search.casefold()
    # bytes know the two cases of ASCII letters only; writing without cases, like Chinese, needs no more
    simple = search.isprintable() and all(c.isascii() or c == c.upper() == c.lower() for c in search)
    return (folded.encode("utf-8", errors="replace"),) if folded and simple else None


def _holding(lowered: bytes, words: tuple[bytes, ...]) -> set[int]:
    """Where the lines begin that hold one of the words."""
    found = set()
    for word in words:
        at = lowered.find(word)
        while at >= 0:
            found.add(_start(lowered, at))
            at = lowered.find(word, lowered.index(b"\n", at))
    return found


def _start(data: bytes, at: int) -> int:
    return data.rfind(b"\n", 0, at) + 1


def _line_start(stream: BinaryIO, offset: int) -> int:
    """Where the first line begins at or after an offset; the offset itself where there is none for long."""
    stream.seek(offset)
    skipped = stream.readline(TAIL_BYTES // 2)
    return offset + len(skipped) if skipped.endswith(b"\n") else offset
