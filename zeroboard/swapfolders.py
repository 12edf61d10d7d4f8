"""The folders that runs swap to (NVMe offload): made with a mark, and removed by nothing but that mark.

A run swaps to a folder of its own (its id) within the one that a person named on a fast disk. Hundreds of gigabytes may
lie there, and nothing needs them once the ranks are gone. They are removed by the first rank of each machine as it
ends, well or badly, and by the supervisor after it, for a rank that was killed removes nothing. What both missed (the
machine was switched off, another launcher's run was killed) is found by `runs.leftovers`, and named.

Covered: a folder of that name that somebody else made, a link in its place, a mark of another run.
Not covered: disks of other machines; there each machine's own ranks remove theirs.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from zeroboard.errors import UnsafePath
from zeroboard.files import read_json, to_json, write_atomic
from zeroboard.paths import RunPaths

log = logging.getLogger(__name__)

MARK = ".zeroboard-swap.json"
"""Within a run's folder for swapping: whose it is, and which process made it."""
CONFIG = "ds_z3_offload_config.json"
"""The one DeepSpeed file that may swap: nothing below stage 3 does."""


def named(config: Any) -> tuple[Path, ...]:
    """The folders that a DeepSpeed file swaps to, each once; none where it is no such file."""
    zero = config.get("zero_optimization") if isinstance(config, dict) else None
    blocks = [zero.get(name) for name in ("offload_optimizer", "offload_param")] if isinstance(zero, dict) else []
    paths = [block.get("nvme_path") for block in blocks if isinstance(block, dict) and block.get("device") == "nvme"]
    return tuple(dict.fromkeys(Path(path) for path in paths if isinstance(path, str)))


def planned(files: dict[str, str]) -> tuple[Path, ...]:
    """The same of a plan's files."""
    return named(json.loads(files[CONFIG])) if CONFIG in files else ()


def claim(folder: Path, run: RunPaths, *, started: float) -> None:
    """Make a run's folder and mark it as this process's, which began at `started` (epoch seconds).

    An empty folder will do: a rank may have been killed before it set its mark. Raises `UnsafePath` where one is there
    that is not the run's, and `OSError`.
    """
    try:
        folder.mkdir()
    except FileExistsError as error:
        empty = folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir())
        if not empty and not is_own(folder, run):
            raise UnsafePath("error.swap-taken", path=str(folder)) from error
    mark = {
        "run": run.id,
        "folder": str(run.folder.resolve()),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started": started,
    }
    write_atomic(folder / MARK, to_json(mark))


def is_own(folder: Path, run: RunPaths) -> bool:
    """Whether a folder is the one that this very run made: its name, no link, and the mark in it."""
    mark = mark_in(folder)
    return folder.name == run.id == mark.get("run") and mark.get("folder") == str(run.folder.resolve())


def remove(folders: Iterable[Path], run: RunPaths) -> None:
    """Remove those of the folders that the run made; the others stay. Raises nothing: a run's end hangs on no disk.

    The mark goes last: where something cannot be removed now, because a rank still writes, somebody can later.
    """
    for folder in folders:
        try:
            if is_own(folder, run):
                _empty(folder)
        except OSError as error:  # a disk that is gone, or read-only since it failed
            log.warning("cannot remove %s: %s", folder, error)


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != MARK:
            entry.unlink(missing_ok=True)
    if [entry.name for entry in folder.iterdir()] == [MARK]:
        (folder / MARK).unlink()
        folder.rmdir()


def mark_in(folder: Path) -> dict[str, Any]:
    """What stands in the mark; empty where the folder is a link or none, or the mark cannot be read."""
    if folder.is_symlink() or not (folder / MARK).is_file() or (folder / MARK).is_symlink():
        return {}
    try:
        mark = read_json(folder / MARK)
    except (OSError, ValueError):
        return {}
    return mark if isinstance(mark, dict) else {}
