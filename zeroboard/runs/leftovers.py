"""What runs that are gone have left in the folders that they swapped to (see `zeroboard.swapfolders`).

A process of another machine cannot be seen, and a container that was made anew is another machine by its name. There
the state of the run says whether it is over; a run that another launcher started has none that would.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from zeroboard import swapfolders
from zeroboard.contract.state import ENDED, ProcessMark
from zeroboard.errors import ZeroBoardError
from zeroboard.files import read_json
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs.processes import alive
from zeroboard.runs.registry import read_state


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOver:
    """A folder that a run which is gone has left."""

    run: str
    folder: Path
    bytes: int


def left_over(paths: Paths) -> tuple[LeftOver, ...]:
    """What runs of ours that are gone have left in the places that any run of ours has swapped to."""
    places = {folder.parent for config in paths.runs.glob(f"*/{swapfolders.CONFIG}") for folder in _named_in(config)}
    found = []
    for place in sorted(places):
        for folder in _folders(place):
            run = paths.run(folder.name)
            if swapfolders.is_own(folder, run) and not _running(swapfolders.mark_in(folder), run):
                found.append(LeftOver(run=folder.name, folder=folder, bytes=_bytes(folder)))
    return tuple(found)


def _named_in(config: Path) -> tuple[Path, ...]:
    try:
        return swapfolders.named(read_json(config))
    except (OSError, ValueError):
        return ()


def _folders(place: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):  # a disk that is not there now
        yield from sorted(path for path in place.iterdir() if (path / swapfolders.MARK).is_file())


def _running(mark: dict[str, Any], run: RunPaths) -> bool:
    """Whether the process that made it still runs, as far as can be known from here; else it is taken to."""
    if mark.get("host") != socket.gethostname():
        return not _ended(run)
    try:
        return alive(ProcessMark.model_validate({"pid": mark.get("pid"), "started": mark.get("started")}))
    except ValidationError:
        return False


def _ended(run: RunPaths) -> bool:
    try:
        return read_state(run).state in ENDED
    except ZeroBoardError:
        return False


def _bytes(folder: Path) -> int:
    total = 0
    for above, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(above) / name).lstat().st_size
    return total
