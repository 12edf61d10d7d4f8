"""Lines of a log as a person wants to read them: what a terminal would show at their end, and nothing that acts.

Covered: colours and other escape sequences (7-bit and 8-bit), progress bars that overwrite themselves, bad bytes,
control characters, characters that turn the direction of writing, lines of any length. Not covered: bars that move the
cursor up; each of their lines stays.
"""

from __future__ import annotations

import re
from typing import Literal

LINE_BYTES = 8192
"""Longer lines are cut, and say by how much."""
HELD = 4 * LINE_BYTES
"""Bytes of a line that are looked at; more of it is only counted."""

Level = Literal["all", "warning", "error"]
"""All lines; warnings and what is worse; errors with their tracebacks."""

_ESCAPE = re.compile(
    r"(?:\x1b\[|[\x9b\udc9b])[0-?]*+[ -/]*+[@-~]"  # CSI: colours, moves
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f\udc90\udc98\udc9d\udc9e\udc9f])"  # OSC, DCS, SOS, PM, APC: titles, links
    r"[^\x07\x1b\x9c\udc9c]{0,4096}+(?:\x07|\x1b\\|[\x9c\udc9c])"
    r"|\x1b[ -/]++[0-~]|\x1b[0-Z\\^_`-~]"  # the rest of two or three bytes
)
_ODD = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\udc80-\udcff]")
_SHOWN = {
    **{code: 0x2400 + code for code in range(0x20) if code != 0x09},
    **dict.fromkeys(range(0x80, 0xA0)),
    **dict.fromkeys((0x07, 0x08, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))),
    **dict.fromkeys(range(56448, 56576), 65533),
    0x7F: 0x2421,
}
"""Control characters get their picture, bad bytes the replacement character; bells and what only moves go."""

_RANK = r"^(?:\[rank\d+\]:?\s*)?"
_WITHIN = re.compile(r"^(?:\[rank\d+\]:(?: |$))?(?:\s|$|During handling|The above exception)")
_GLOG = _RANK + r"(?:\[rank\d+\]:)?\[?[{}]\d{{4}} \d\d:"
_ERROR = (
    r"(?:^|[\s\[(<|:-])(?:ERROR|CRITICAL|FATAL|SEVERE)(?=$|[\s\])>|:,-])"
    r"|(?:^|[\s\]])[\w.]*(?:Error|Exception|Interrupt)(?=:|$|\()"
    r"|(?i:(?:^|[\s\[])(?:fatal )?error[\]:]|\bfatal\b|\bkilled\b)"
    r"|(?i:segmentation fault|core dumped|bus error|out of memory)"
    r"|terminate called"
)
_LEVELS: dict[str, re.Pattern[str]] = {
    "error": re.compile(f"{_ERROR}|{_GLOG.format('EF')}"),
    "warning": re.compile(
        rf"{_ERROR}|{_GLOG.format('EFW')}"
        r"|(?:^|[\s\[(<|:-])WARN(?:ING)?(?=$|[\s\])>|:,-])|\w*Warning(?=:|$)|(?i:(?:^|[\s\[])warn(?:ing)?[\]:])"
    ),
}
"""How common libraries mark such lines: Python's logging and exceptions, C++ logs of torch, shells. A guess, which is
why the whole log stays at hand."""
HINTS: dict[str, tuple[bytes, ...]] = {
    "error": (
        b"error", b"critical", b"fatal", b"severe", b"exception", b"interrupt", b"traceback", b"segmentation fault",
        b"core dumped", b"out of memory", b"killed", b"terminate called",
    ),
}  # fmt: skip
"""In lower case: a line of the level holds one of them, or `GLOG`."""
HINTS["warning"] = (*HINTS["error"], b"warn")
COLOURS = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
"""The common ones, in bytes: a log that is coloured throughout is freed of them a block at a time."""
GLOG = re.compile(rb"[efw]\d{4} \d\d:")


def plain(raw: bytes, dropped: int = 0) -> str:
    """One line as text; `dropped`: bytes of it that `raw` lacks."""
    text = raw.decode("utf-8", errors="surrogateescape")
    if _ODD.search(text) is not None:
        text = _ESCAPE.sub("", text).translate(_SHOWN)
    if not dropped and len(text) <= LINE_BYTES // 4:  # no character takes more than four bytes
        return text
    data = text.encode("utf-8")
    more = dropped + max(0, len(data) - LINE_BYTES)
    if not more:
        return text
    return f"{data[:LINE_BYTES].decode('utf-8', errors='ignore')} …[+{more:,} B]"


def shown(raw: bytes) -> tuple[bytes, int]:
    """Of a line's bytes what a progress bar left of it, and how many bytes of that are too much."""
    last = raw.rstrip(b"\r")
    last = last[last.rfind(b"\r") + 1 :]
    return last[:HELD], max(0, len(last) - HELD)


def of_level(text: str, level: Level, *, within: bool = False) -> bool:
    """Whether a line is of this level or worse; `within`: it stands in a traceback."""
    return level == "all" or within or begins_traceback(text) or _LEVELS[level].search(text) is not None


def begins_traceback(text: str) -> bool:
    return "Traceback (most recent call last)" in text


def in_traceback(text: str) -> bool:
    """Whether a traceback goes on after this line of it: the exception's own line is its last."""
    return _WITHIN.match(text) is not None or begins_traceback(text)


class Unfinished:
    """The last line of a log while it grows: as much of it as can be shown, however long it is."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._dropped = 0
        self._returned = False
        """A carriage return came last: what comes next overwrites the line, unless it is its end."""

    def feed(self, data: bytes) -> None:
        """More of the line, in pieces of any size; without line ends."""
        body = data.rstrip(b"\r")
        if body and self._returned:
            self.clear()
        self._returned = self._returned or len(body) < len(data)
        at = body.rfind(b"\r")
        if at >= 0:
            self._held.clear()
            self._dropped = 0
            body = body[at + 1 :]
        room = HELD - len(self._held)
        self._held += body[:room]
        self._dropped += max(0, len(body) - room)

    def line(self) -> tuple[bytes, int]:
        """What stands there, and how many bytes of it were too much."""
        return bytes(self._held), self._dropped

    def clear(self) -> None:
        self._held.clear()
        self._dropped = 0
        self._returned = False
