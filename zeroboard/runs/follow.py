"""Following a run's streams of lines, events and readings: only what is new, a line at a time."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from zeroboard.contract.events import EVENT, Event, StepEvent
from zeroboard.files import read_lines
from zeroboard.paths import RunPaths

log = logging.getLogger(__name__)

T = TypeVar("T")


class LineFollower(Generic[T]):
    """Reads a growing file of JSON lines of one kind; an unfinished last line waits for the next look."""

    def __init__(self, path: Path, kind: TypeAdapter[T], *, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self.skipped = 0
        """Lines that this version does not know."""
        self.restarted = False
        """The last look found the file replaced by a shorter one, and began again."""
        self._kind = kind

    def look(self) -> tuple[tuple[T, ...], bool]:
        """The next lines, some megabytes of them at most, and whether there may be more."""
        found = read_lines(self.path, self.offset)
        self.restarted = found.restarted
        moved = found.offset != self.offset
        self.offset = found.offset
        if not found.lines:
            return (), moved and not found.restarted
        read = []
        for line in found.lines:
            try:
                read.append(self._kind.validate_json(line))
            except ValidationError as error:
                self.skipped += 1
                log.warning("an unknown line in %s: %s", self.path, error.errors()[0]["msg"])
        return tuple(read), True

    def read(self) -> tuple[T, ...]:
        """Everything since the last look."""
        read: list[T] = []
        restarted = False
        more = True
        while more:
            found, more = self.look()
            if self.restarted:
                read.clear()
                restarted = True
            read.extend(found)
        self.restarted = restarted
        return tuple(read)


class Follower(LineFollower[Event]):
    """Reads a growing `events.jsonl`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, EVENT)


def each_event(run: RunPaths) -> Iterator[Event]:
    """Everything a run told, in order, from the file; never all of it in memory."""
    follower = Follower(run.events)
    more = True
    while more:
        found, more = follower.look()
        yield from found


def each_step(run: RunPaths) -> Iterator[StepEvent]:
    """Every step of a run; as `each_event`."""
    return (event for event in each_event(run) if isinstance(event, StepEvent))
