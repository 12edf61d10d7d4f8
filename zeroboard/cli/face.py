"""How the command line shows things: tables, colour only on a terminal, progress on standard error."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zeroboard.files import to_json
from zeroboard.messages import Language, say, visible
from zeroboard.paths import Paths
from zeroboard.settings import Settings

COLOURS = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}
VERDICTS = {
    "pass": "green", "finished": "green", "in effect": "green",
    "warn": "yellow", "warning": "yellow", "partly": "yellow", "stopped": "yellow", "lost": "yellow",
    "fail": "red", "error": "red", "failed": "red", "not in effect": "red",
}  # fmt: skip
"""Word → colour."""

LINE_EVERY = 5.0
"""Seconds between two lines of progress where there is no terminal."""
BAR = 24


class OutputLost(Exception):
    """Standard output takes no more: its reader has gone (`| head`), or the disk behind it is full."""


@dataclass(slots=True, kw_only=True)
class Face:
    """Where a command's words go."""

    settings: Settings
    language: Language
    language_chosen: bool = False
    """`--lang` was given."""
    json: bool
    _progress_shown: bool = field(default=False, init=False)
    _progress_time: float = field(default=0.0, init=False)
    _progress_text: str = field(default="", init=False)

    @property
    def paths(self) -> Paths:
        return self.settings.paths

    def say(self, key: str, **params: Any) -> str:
        return say(key, self.language, **params)

    def print(self, text: str = "") -> None:
        """A line of the result, on standard output."""
        self.write(text + "\n")

    def write(self, text: str) -> None:
        """A piece of a line (an answer as it comes)."""
        self.clear()
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError as error:
            raise OutputLost(error.strerror or str(error)) from error

    def print_json(self, value: Mapping[str, Any]) -> None:
        """The one object of `--json`."""
        text = to_json(value)
        try:
            text.encode(sys.stdout.encoding or "utf-8")
        except UnicodeEncodeError:  # letters that the stream has not; JSON can do without any
            text = json.dumps(value, allow_nan=False, indent=2) + "\n"
        self.write(text)

    def note(self, text: str) -> None:
        """A line beside the result, on standard error."""
        self.clear()
        _aside(text + "\n")

    def problem(self, value: Mapping[str, Any], *, one_line: bool = False) -> None:
        """What is wrong, where, and what to do: in two lines, or (wrong usage) in one."""
        place = f" {visible(value['field'])}:" if value.get("field") else ""
        severity = value["severity"]
        word = self.colour(self.say(f"cli.severity.{severity}"), VERDICTS.get(severity, "dim"), sys.stderr)
        remedy = value.get("remedy")
        rest = "" if not remedy else f" {remedy}" if one_line else f"\n  → {remedy}"
        line = f"{word}{place} {value['message']}{rest}"
        self.note(" ".join(line.splitlines()) if one_line else line)

    def table(self, rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> None:
        """Columns, as wide as they need; Chinese characters count twice."""
        lines = [tuple(visible(" ".join(cell.splitlines())) for cell in row) for row in rows]
        everything = [tuple(head), *lines] if head else lines
        if not everything:
            return
        widths = [max(_width(row[n]) for row in everything if n < len(row)) for n in range(max(map(len, everything)))]
        for at, row in enumerate(everything):
            cells = [cell + " " * (widths[n] - _width(cell)) for n, cell in enumerate(row)]
            painted = [self._paint(cell) if at or not head else self.colour(cell, "bold") for cell in cells]
            self.print("  ".join(painted).rstrip())

    def colour(self, text: str, name: str, stream: Any = None) -> str:
        """Painted on a terminal, plain elsewhere (and where NO_COLOR is set)."""
        text = visible(text)
        target = sys.stdout if stream is None else stream
        if not target.isatty() or os.environ.get("NO_COLOR") or name not in COLOURS:
            return text
        return f"\x1b[{COLOURS[name]}m{text}\x1b[0m"

    def progress(self, text: str, done: float | None = None) -> None:
        """How far it is, on standard error: a bar on a terminal, elsewhere a line every few seconds."""
        now = time.monotonic()
        if sys.stderr.isatty():
            if now - self._progress_time < 0.1 and done != 1.0:
                return
            full = "" if done is None else "[" + ("#" * round(done * BAR)).ljust(BAR, "·") + "] "
            percent = "" if done is None else f"{done * 100:3.0f} % "
            _aside(f"\r\x1b[K{full}{percent}{text}")
            self._progress_shown = True
        elif text == self._progress_text or (now - self._progress_time < LINE_EVERY and self._progress_text):
            return
        else:
            percent = "" if done is None else f"{done * 100:.0f} % "
            _aside(f"{percent}{text}\n")
        self._progress_time = now
        self._progress_text = text

    def clear(self) -> None:
        """Take the bar away before other words."""
        if self._progress_shown:
            _aside("\r\x1b[K")
            self._progress_shown = False

    def _paint(self, cell: str) -> str:
        name = VERDICTS.get(cell.strip())
        return cell if name is None else self.colour(cell, name)


def _aside(text: str) -> None:
    """Onto standard error. Where that takes no more the result goes on: there is nobody left to tell."""
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()


def size(value: float | None) -> str:
    """Bytes for people: `1.5 GiB`; `–` where it is not known."""
    if value is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit takes everything")


def clock(seconds: float | None) -> str:
    """A time span for people: `1:05`, `2:03:04`; `–` where it is not known."""
    if seconds is None:
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def number(value: float | None, form: str = ".4f") -> str:
    """A figure, or `–` where there is none."""
    return "–" if value is None else format(value, form)


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
