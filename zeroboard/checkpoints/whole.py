"""A folder that appears whole or not at all, however long it takes to write.

It is written beside its place under another name and renamed at the end. A process that is killed leaves that other
folder behind; whoever writes to the same place next removes it. Covered: two that write to one place at a time (the
later one finds the place taken). Not covered: a place on another disk than its parent folder.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zeroboard.checkpoints.findings import printable
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.errors import Refused
from zeroboard.files import DISK_FULL, share, sync_folder


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A new folder to write into; at the end of the block it is synced and takes the name `target`.

    Where the block raises, nothing is left. An empty folder at `target` is replaced. Raises `Refused`: `output-exists`
    where something lies there, `output-not-writable` where no folder can be made; and `OSError` of a full disk.
    """
    try:
        if _taken(target):
            raise _exists(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        folder, alive = _begin(target)
    except OSError as error:
        if error.errno in DISK_FULL:
            raise
        raise _impossible(target, error) from error
    try:
        yield folder
        share(folder)
        for file in folder.rglob("*"):
            sync_folder(file)  # a file is synced the same way
        sync_folder(folder)
        _rename(folder, target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        os.close(alive)


def _begin(target: Path) -> tuple[Path, int]:
    """A new folder, and the handle whose lock says that its writer lives. Made under a lock: none sees it unlocked."""
    parent = os.open(target.parent, os.O_RDONLY)
    try:
        fcntl.flock(parent, fcntl.LOCK_EX)
        clear_leftovers(target)
        folder = Path(tempfile.mkdtemp(prefix=_prefix(target), suffix=_SUFFIX, dir=target.parent))
        alive = os.open(folder, os.O_RDONLY)
        fcntl.flock(alive, fcntl.LOCK_EX)
    finally:
        os.close(parent)
    return folder, alive


def clear_leftovers(target: Path) -> None:
    """Remove what killed processes left beside `target`. What is being written stays."""
    for folder in target.parent.glob(f"{_prefix(target)}*{_SUFFIX}"):
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # gone meanwhile, or no folder of ours
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
        except BlockingIOError:
            continue  # its writer lives
        finally:
            os.close(handle)


_SUFFIX = ".part"


def _prefix(target: Path) -> str:
    """Of a fixed length, so that a name as long as names may be has room for it."""
    return f".{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


def _taken(target: Path) -> bool:
    if target.is_dir() and not target.is_symlink():
        return any(target.iterdir())
    return target.exists() or target.is_symlink()


def _rename(folder: Path, target: Path) -> None:
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise _exists(target) from error
        raise
    sync_folder(target.parent)


def _exists(target: Path) -> Refused:
    return Refused([Problem(code="output-exists", params={"path": str(target)})])


def _impossible(target: Path, error: OSError) -> Refused:
    params: dict[str, Scalar] = {"path": printable(str(target)), "why": os.strerror(error.errno or errno.EIO)}
    return Refused([Problem(code="output-not-writable", says="problem.output-not-writable.folder", params=params)])
