"""The poller's child that asks NVML, kept alive: one that crashes, hangs or ends is started again, ever later.

What it told last stays known meanwhile: the cards are still there, only their readings are not.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from pydantic import ValidationError

from zeroboard.contract.host import GpuFacts
from zeroboard.monitor.host import has_library
from zeroboard.monitor.told import RETRY, Probe
from zeroboard.paths import HOME

log = logging.getLogger(__name__)

STAYS = ("index", "uuid", "name", "memory_total", "memory_shared", "power_limit", "compute_capability", "mig", "slices")
"""Fields of a GPU that hold while nobody answers."""
ABSENT = 60.0
"""Seconds between two looks for the driver's library where there is none."""
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds."""

    first: float = 15.0
    """Until the first answer: a driver that wakes up needs some."""
    hang: float = 6.0
    """Between two answers, beside the interval."""
    kill: float = 1.0
    """Until one that was killed has ended."""
    back_off: float = 1.0
    """Before the first new start; each further one waits twice as long."""
    most: float = 60.0
    healthy: float = 60.0
    """That a child has to have answered for the waiting to begin anew."""


class Child:
    """One `watch` process. Call `tend` often, `hear` when `stream` can be read, `told` for what is known."""

    def __init__(self, interval: float, patience: Patience, *, popen: Callable[..., Any] = subprocess.Popen) -> None:
        self._interval, self._patience, self._popen = interval, patience, popen
        self._process: subprocess.Popen[bytes] | None = None
        self._undead: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._last: Probe | None = None
        """The last answer; None: never one."""
        self._says: str | None = None
        """Why there is no child, or no answer of it; None: it answers."""
        self._began = self._heard = self._start_at = 0.0
        self._answers = False
        self._back_off = patience.back_off

    @property
    def stream(self) -> IO[bytes] | None:
        """What can be waited for; None while there is no child."""
        return self._process.stdout if self._process is not None else None

    def told(self) -> Probe | None:
        """What is known; None while the first child has not answered yet."""
        if self._says is None:
            return self._last
        last = self._last or Probe()
        return Probe(says=self._says, driver=last.driver, gpus=tuple(_faded(gpu) for gpu in last.gpus))

    def tend(self) -> None:
        """Start it where it is time to, and end one that hangs."""
        now = time.monotonic()
        if self._process is None:
            if now >= self._start_at:
                self._start(now)
            return
        if self._process.poll() is not None:
            self.hear()
        elif now - self._heard > self._limit():
            self._lose("nvml.hangs", f"no answer for {now - self._heard:.1f} s")

    def hear(self) -> None:
        """Read what it said; the last whole line counts. The end of its words is its end."""
        assert self._process is not None and self._process.stdout is not None
        data = os.read(self._process.stdout.fileno(), CHUNK)
        if not data:
            self._ended()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not lines:
            return
        try:
            self._last = Probe.model_validate_json(lines[-1])
        except ValidationError as error:
            self._lose("nvml.crashed", f"it said what cannot be read: {error}")
            return
        self._heard, self._says, self._answers = time.monotonic(), None, True
        if self._heard - self._began > self._patience.healthy:
            self._back_off = self._patience.back_off

    def _ended(self) -> None:
        assert self._process is not None
        try:
            code = self._process.wait(timeout=self._patience.hang)
        except subprocess.TimeoutExpired:
            self._lose("nvml.hangs", "it does not end")
        else:
            self._lose("nvml.crashed" if code else None, f"it ended with {code}")

    def end(self) -> None:
        """Leave nothing behind that the kernel lets go of."""
        process, self._process, self._rest = self._process, None, b""
        if process is None:
            return
        process.kill()
        if process.stdout is not None:
            process.stdout.close()
        try:
            process.wait(timeout=self._patience.kill)
        except subprocess.TimeoutExpired:
            log.error("process %d is deep in the driver and does not even end by SIGKILL", process.pid)
            self._undead = process

    def _limit(self) -> float:
        """Seconds that its next answer may take."""
        if not self._answers or self._last is None:
            return self._patience.first
        return self._patience.hang + (self._interval if self._last.says is None else max(self._interval, RETRY))

    def _start(self, now: float) -> None:
        if self._undead is not None and self._undead.poll() is None:  # another one would only get stuck beside it
            self._start_at = now + self._back_off
            return
        self._undead = None
        if not has_library():
            self._last, self._says, self._start_at = Probe(), "nvml.no-library", now + ABSENT
            return
        argv = [sys.executable, "-m", "zeroboard.monitor", "watch", "--interval", str(self._interval)]
        try:
            self._process = self._popen(argv, cwd=HOME, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        except OSError as error:
            self._lose("nvml.restarting", f"it cannot be started: {error}")
            return
        self._began = self._heard = now
        self._answers = False
        if self._says is not None:
            self._says = "nvml.restarting"

    def _lose(self, says: str | None, why: str) -> None:
        """The child is gone, or has to go; `says` None: it left as it should."""
        log.warning("the child that asks NVML is started again in %.1f s: %s", self._back_off, why)
        self.end()
        self._says = says or (self._last.says if self._last is not None else None) or "nvml.restarting"
        self._start_at = time.monotonic() + self._back_off
        self._back_off = min(self._back_off * 2, self._patience.most)


def _faded(gpu: GpuFacts) -> GpuFacts:
    """The card without its readings."""
    kept = {field: getattr(gpu, field) for field in STAYS}
    return GpuFacts(**kept, state="lost" if gpu.state == "lost" else "partly")
