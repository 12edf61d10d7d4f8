"""Following a run's events: only what is new, a line at a time."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import ValidationError

from zeroboard.contract.events import EVENT, Event
from zeroboard.files import read_lines

log = logging.getLogger(__name__)


class Follower:
    """Reads a growing `events.jsonl`; an unfinished last line waits for the next look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.skipped = 0
        """Lines that are no event that this version knows."""
        self.restarted = False
        """The last look found the file replaced by a shorter one, and began again."""

    def read(self) -> tuple[Event, ...]:
        """The events since the last look."""
        events: list[Event] = []
        self.restarted = False
        while True:
            found = read_lines(self.path, self.offset)
            if found.restarted:
                events.clear()
                self.restarted = True
            moved = found.offset != self.offset
            self.offset = found.offset
            for line in found.lines:
                try:
                    events.append(EVENT.validate_json(line))
                except ValidationError as error:
                    self.skipped += 1
                    log.warning("an unknown line in %s: %s", self.path, error.errors()[0]["msg"])
            if not moved:
                return tuple(events)
