"""The beats of this rank: where its training is, and that its process lives.

The training only notes where it is (three assignments); a thread of its own writes that down, so neither a slow disk
nor a full one is felt by the training.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time

from zeroboard.contract.beats import BEAT_EVERY, Beat, Where
from zeroboard.files import write_over
from zeroboard.paths import RunPaths

LOOK_EVERY = 1.0
"""Seconds between two looks at whether the training has moved: what moved is on disk after that time."""

log = logging.getLogger(__name__)


class Heart:
    """Keeps `beats/rank_N.json` of one rank fresh from `start` to `stop`."""

    def __init__(
        self, run: RunPaths, rank: int, *, look_every: float = LOOK_EVERY, beat_every: float = BEAT_EVERY
    ) -> None:
        self._path = run.beats / f"rank_{rank}.json"
        self._rank = rank
        self._host = socket.gethostname()
        self._place: tuple[Where, int, int, float] = ("start", 0, 0, time.time())
        """Where, steps done, moves, since when: replaced whole, so that the thread never sees half a change."""
        self._look_every = look_every
        self._beat_every = beat_every - look_every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heart", daemon=True)
        self._failed = False

    def start(self) -> None:
        """Give the first beat and go on."""
        self._write()
        self._thread.start()

    def at(self, where: Where, step: int | None = None) -> None:
        """The training moved on; `step` where an optimizer step was done."""
        _, steps, moves, _ = self._place
        self._place = (where, steps if step is None else step, moves + 1, time.time())

    def stop(self) -> None:
        """Give the last beat."""
        self.at("end")
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._write()

    def _beat(self) -> None:
        moves, written = 0, time.monotonic()
        while not self._ended.wait(self._look_every):
            now = time.monotonic()
            if self._place[2] != moves or now - written >= self._beat_every:
                moves, written = self._place[2], now
                self._write()

    def _write(self) -> None:
        where, step, moves, moved = self._place
        beat = Beat(
            rank=self._rank,
            host=self._host,
            pid=os.getpid(),
            step=step,
            where=where,
            moves=moves,
            moved=moved,
            time=time.time(),
        )
        try:
            self._path.parent.mkdir(exist_ok=True)
            write_over(self._path, beat.model_dump_json())
        except OSError as error:  # a full disk, or the run's folder was removed: no reason to end a training
            if not self._failed:
                log.warning("the beat cannot be written, the training goes on: %s", error)
            self._failed = True
        else:
            self._failed = False
