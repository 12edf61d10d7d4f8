"""What this machine has, and which of its devices a run holds.

Where the cache's poller tells the readings, they are read; where none does, the machine is measured here and now.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from zeroboard.contract import poller
from zeroboard.contract.host import HostFacts
from zeroboard.monitor.host import host_facts, slow_facts
from zeroboard.paths import Paths
from zeroboard.planning.visible import guessed, visible
from zeroboard.runs.launcher import Popen
from zeroboard.runs.locks import holders

SLOW = 60.0
"""Seconds for which compiler and packages are taken as known."""


def facts(paths: Paths) -> HostFacts:
    """The host's facts with the locks and the visible devices in them: the poller's where they are fresh."""
    return watched(paths) or measure(paths)


def watched(paths: Paths) -> HostFacts | None:
    """The facts as the poller tells them; None where none does. Takes about a millisecond."""
    told = poller.fresh(paths)
    return _whole(paths, told, _slow(int(time.monotonic() // SLOW))) if told is not None else None


def measure(paths: Paths) -> HostFacts:
    """The facts, measured now; takes a second or so, and starts a process where there is an NVIDIA driver."""
    return _whole(paths, host_facts(paths), {})


def ensure(paths: Paths, *, popen: Popen = subprocess.Popen) -> bool:
    """Say that somebody looks at the machine: a poller is started where none is. Whether one is there."""
    return poller.ensure(paths, popen)


def _whole(paths: Paths, told: HostFacts, slow: Mapping[str, Any]) -> HostFacts:
    seen = {"visible": visible(told.gpus, os.environ), "visible_guessed": guessed(told.gpus, os.environ)}
    return told.model_copy(update={**slow, **seen, "held": holders(paths)})


@lru_cache(maxsize=1)
def _slow(_minute: int) -> dict[str, Any]:
    return slow_facts()
