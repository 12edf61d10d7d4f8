"""The readings of a run over time: the last minutes in full, what is older thinned, so that a day costs an hour."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from zeroboard.contract.readings import Reading
from zeroboard.runs.follow import LineFollower

MOST = 300
"""Older readings that are kept."""
RECENT = 300.0
"""Seconds that are kept at the rate at which they were written ..."""
RECENT_MOST = 600
"""... but not more readings than these, whatever the clock does."""
SKIM = 8 << 20
"""A file that is larger when it is first looked at is sampled; its last `SKIM` / 2 bytes are read whole."""

_READING: TypeAdapter[Reading] = TypeAdapter(Reading)


class History:
    """Follows `readings.jsonl`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._follower: LineFollower[Reading] | None = None
        self._older: list[Reading] = []
        self._gap = 0.0
        """Seconds between two older readings, at least."""
        self._recent: deque[Reading] = deque()
        self._made: tuple[Reading, ...] = ()

    def read(self) -> tuple[Reading, ...]:
        """What is kept, oldest first; the same object where nothing new has come."""
        if self._follower is None:
            self._follower = self._begin()
        changed, more = False, True
        while more:
            found, more = self._follower.look()
            if self._follower.restarted:
                self._older, self._gap, changed = [], 0.0, True
                self._recent.clear()
            if found:
                self._take(found)
                changed = True
        if changed:
            self._made = (*self._older, *self._recent)
        return self._made

    def _take(self, found: Iterable[Reading]) -> None:
        for reading in found:
            self._recent.append(reading)
            while self._recent[0].time < reading.time - RECENT or len(self._recent) > RECENT_MOST:
                self._age(self._recent.popleft())

    def _age(self, reading: Reading) -> None:
        if self._older and abs(reading.time - self._older[-1].time) < self._gap:
            return
        self._older.append(reading)
        while len(self._older) > MOST:
            span = abs(self._older[-1].time - self._older[0].time)
            self._gap = max(self._gap * 2, 2 * span / MOST, 1.0)
            self._older = _spaced(self._older, self._gap)

    def _begin(self) -> LineFollower[Reading]:
        """At the start of the file; where that would be long, at its last part, with samples of what lies before."""
        size = self._path.stat().st_size if self._path.is_file() else 0
        if size <= SKIM:
            return LineFollower(self._path, _READING)
        begin = size - SKIM // 2
        with self._path.open("rb") as stream:
            for place in range(0, begin, max(1, begin // MOST)):
                stream.seek(place)
                if place:
                    stream.readline()
                self._sample(stream.readline())
            stream.seek(begin, os.SEEK_SET)
            stream.readline()
            return LineFollower(self._path, _READING, offset=stream.tell())

    def _sample(self, line: bytes) -> None:
        try:
            self._age(_READING.validate_json(line))
        except ValidationError:  # the last line of all, not finished; or one of a later version, which `look` counts
            return


def _spaced(readings: list[Reading], gap: float) -> list[Reading]:
    kept = readings[:1]
    for reading in readings[1:]:
        if abs(reading.time - kept[-1].time) >= gap:
            kept.append(reading)
    return kept
