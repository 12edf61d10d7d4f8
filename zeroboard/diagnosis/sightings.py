"""What one log shows: exceptions, telling lines, exits, the course of the training; in memory that does not grow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zeroboard.diagnosis import course, launcher
from zeroboard.diagnosis.course import Course, when
from zeroboard.diagnosis.launcher import Launcher
from zeroboard.diagnosis.matching import DATA, ECHO, GENERIC, of_exception, of_line
from zeroboard.diagnosis.reading import Line, Log, holds, lines
from zeroboard.diagnosis.rules import Rule
from zeroboard.diagnosis.tracebacks import Raised, Stream

MOST = 64
"""Exceptions of a rank, and lines of a rule, that are kept of the beginning, and again of the end, of a log."""
GOES_ON = 3
"""After so many further steps nothing that was said before ended the training."""

_SPEAKER = ("[Rank ", "Rank ")


@dataclass(slots=True, kw_only=True)
class Sighting:
    """An exception, or a line that a rule knows."""

    rule: Rule
    evidence: int
    """Which pattern of its rule; the lower the better."""
    line: Line
    order: int
    rank: int | None
    text: str
    """The line, or type and message of the exception."""
    time: float | None
    """Seconds since the epoch: of the line itself, or of the last line before it that had one."""
    exact: bool
    """The time is its own."""
    raised: bool = False
    chain: int = 0
    aside: bool = False
    steps: int = 0
    """How many steps had been made before it."""


class Shown:
    """Everything that one log shows."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.course = Course()
        self.launcher = Launcher()
        self.lines = 0
        self.counts: dict[str, int] = {}
        """Rule → how often it was seen."""
        self._streams: dict[int | None, Stream] = {}
        self._first: dict[tuple[int | None, str], list[Sighting]] = {}
        self._last: dict[tuple[int | None, str], list[Sighting]] = {}
        self._raised: list[tuple[Raised, float | None, int]] = []

    def read(self, last: int | None = None) -> None:
        """Read the log to its end; `last`: only about so many bytes there. Raises `OSError`."""
        for order, line in enumerate(lines(self.log, last)):
            self.take(line, order)
        self._close()

    def take(self, line: Line, order: int) -> None:
        text = line.text
        if text and not text.isspace():
            self.lines += 1
            self.course.last = line
        if line.bar:
            self.course.feed(line, order)
            return
        self.course.hear(text)
        stream = self._streams.get(line.rank)
        if stream is None:
            stream = self._streams[line.rank] = Stream()
        raised, inside = stream.feed(line, order)
        if raised is not None:
            self._raised.append((raised, self.course.stamp(), self.course.steps))
            if len(self._raised) > MOST:
                self._close(keep=1)
        if inside and (raised is not None or not text or text[0] in " \t"):
            return
        if holds(text, launcher.WORDS) and self.launcher.feed(line, order):
            return
        if holds(text, course.WORDS) and self.course.feed(line, order):
            return
        if found := of_line(text):
            self._keep(
                Sighting(
                    rule=found[0], evidence=found[1], line=line, order=order, rank=_speaker(line), text=text,
                    time=self.course.stamp(), exact=when(text) is not None, steps=self.course.steps,
                )
            )  # fmt: skip

    @property
    def ranks(self) -> frozenset[int]:
        """Whose lines it holds, as far as they are marked."""
        return frozenset(rank for rank in self._streams if rank is not None)

    def all(self) -> Iterator[Sighting]:
        """What was seen, as far as it was kept."""
        for kept in (self._first, self._last):
            for sightings in kept.values():
                yield from sightings

    def survived(self, sighting: Sighting) -> bool:
        """The training went on, or ended in good order, after it."""
        if self.course.steps - sighting.steps >= GOES_ON:
            return True
        if self.course.ended is None or self.course.ended_order < sighting.order:
            return False
        bad = [exit for exit in self.launcher.exits if exit.code != 0 and exit.order > sighting.order]
        return not bad

    def _close(self, keep: int = 0) -> None:
        """Judge the exceptions that were gathered, but for the last `keep`: their messages may not be whole yet."""
        whole = len(self._raised) - keep
        for raised, time, steps in self._raised[:whole]:
            rule, evidence = of_exception(raised.text, raised.frames)
            if raised.aside and rule in (GENERIC, DATA):
                rule = ECHO
            self._keep(
                Sighting(
                    rule=rule, evidence=evidence, line=raised.line, order=raised.order, rank=raised.line.rank,
                    text=raised.text, time=time, exact=False, raised=True,
                    chain=raised.chain, aside=raised.aside, steps=steps,
                )
            )  # fmt: skip
            if raised.original:
                self._drop_carrier(raised)
        self._raised = self._raised[whole:]

    def _drop_carrier(self, raised: Raised) -> None:
        """The exception that only carries the original of a worker is not told beside it."""
        for kept in (self._first, self._last):
            for key, sightings in kept.items():
                kept[key] = [
                    s
                    for s in sightings
                    if not (
                        s.raised and s.rank == raised.line.rank and s.chain == raised.chain and s.order < raised.order
                    )
                ]

    def _keep(self, sighting: Sighting) -> None:
        self.counts[sighting.rule.key] = self.counts.get(sighting.rule.key, 0) + 1
        key = (sighting.rank, sighting.rule.key if sighting.rule is not GENERIC else "generic")
        first = self._first.setdefault(key, [])
        if len(first) < MOST:
            first.append(sighting)
            return
        last = self._last.setdefault(key, [])
        last.append(sighting)
        del last[:-MOST]


def _speaker(line: Line) -> int | None:
    """The rank of a line; c10d names it in its text where the line is not marked."""
    if line.rank is not None:
        return line.rank
    for word in _SPEAKER:
        at = line.text.find(word)
        if at >= 0:
            digits = line.text[at + len(word) :].split("]", 1)[0].split(" ", 1)[0]
            if digits.isdecimal():
                return int(digits)
    return None
