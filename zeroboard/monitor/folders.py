"""What a folder is that somebody named: there, writable, on which file system, with how much room."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import psutil

from zeroboard.contract.folders import FolderFacts
from zeroboard.errors import UsageError
from zeroboard.paths import reachable


def folder_facts(path: str) -> FolderFacts:
    """The facts of a folder; of one that cannot be there (a name that is none) that it is not. Raises nothing."""
    try:
        found = reachable(path)
    except UsageError:
        found = None
    if found is None or not found.is_dir():
        return FolderFacts(path=path, exists=False)
    real = found.resolve()
    try:
        free = shutil.disk_usage(real).free
    except OSError:
        free = None
    writable = os.access(real, os.W_OK | os.X_OK)
    return FolderFacts(
        path=str(real),
        exists=True,
        writable=writable,
        filesystem=_filesystem(real),
        direct=_direct(real) if writable else None,
        free=free,
    )


def _direct(folder: Path) -> bool | None:
    """Tried with a file that never has a name; where there are no such files it is not known."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT, 0o600))
    except OSError as error:
        return False if error.errno == errno.EINVAL else None
    return True


def _filesystem(folder: Path) -> str | None:
    """The type of the file system that is mounted nearest above."""
    mounts = {part.mountpoint: part.fstype for part in psutil.disk_partitions(all=True)}
    above = next((str(p) for p in (folder, *folder.parents) if str(p) in mounts), None)
    return mounts[above] if above is not None else None
