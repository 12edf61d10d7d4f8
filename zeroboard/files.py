"""Reading and writing files so that nothing is ever half there.

Whole files are written beside their place, synced and renamed. Streams of lines are appended with one `write`
a line; their readers keep an offset and leave an unfinished last line for the next time.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from zeroboard.errors import BrokenFile

READ_LIMIT = 8 << 20
"""Most bytes that one look at a stream returns; what is left comes with the next look."""

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""How the system says that a disk, or one's share of it, is full."""

MODE = 0o644
"""Of every file that ZeroBoard writes: others may read it."""


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write the whole file or nothing: temporary file in the same folder, fsync, rename. Makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode("utf-8") if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(MODE)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_over(path: Path, content: str) -> None:
    """Replace a small file whole, without waiting for the disk: for what is written over and over by one writer.

    Readers never see half of it; a power cut may. The folder has to be there.
    """
    beside = path.with_name(f".{path.name}.tmp")
    try:
        beside.write_text(content, encoding="utf-8")
        beside.chmod(MODE)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def write_last(path: Path, content: str) -> None:
    """`write_atomic`; on a full disk over what the small file holds, in the block that it has, so that a last word is
    heard there too."""
    try:
        write_atomic(path, content)
    except OSError as error:
        if error.errno not in DISK_FULL or not path.is_file():
            raise
        data, facts = content.encode("utf-8"), path.stat()
        if len(data) > max(facts.st_size, facts.st_blocks * 512):  # half of it would be worse than what stands there
            raise
        with path.open("r+b") as stream:
            stream.write(data)
            stream.truncate()


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def share(folder: Path) -> None:
    """Give a folder and all that is in it the modes of our own files; libraries write some for their owner alone.

    For a folder that nobody else writes into. Links are left as they are.
    """
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else MODE)


def place(folder: Path, target: Path) -> bool:
    """Move a folder that is whole to its place; where another process was faster, its folder stays and ours goes.

    For folders whose name stands for their content. Returns whether it was ours.
    """
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        shutil.rmtree(folder)
        return False
    sync_folder(target.parent)
    return True


def append_line(path: Path, line: str) -> None:
    """Append one line with a single write, so that several writers never mix within a line."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, MODE)
    try:
        data = line.encode("utf-8") + b"\n"
        while data:  # a regular file takes it in one write; a full disk raises
            data = data[os.write(handle, data) :]
    finally:
        os.close(handle)


def open_regular(path: Path) -> BinaryIO:
    """A file to read, never waiting: what is no regular file (a pipe, a device, a folder) is an `OSError`.

    In a folder that others may write into, a name alone says nothing: opening a pipe would wait for ever.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return os.fdopen(handle, "rb")


def read_whole(path: Path) -> bytes:
    """All bytes of a regular file; only for small ones. Raises `OSError`."""
    with open_regular(path) as stream:
        return stream.read()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """What a look at a growing file found."""

    lines: tuple[str, ...]
    offset: int
    """Where the next look begins, in bytes."""
    restarted: bool = False
    """The file is shorter than the last offset: it was replaced, and was read from its start."""


def read_lines(path: Path, offset: int = 0, limit: int = READ_LIMIT) -> Lines:
    """The whole lines between `offset` and the end of the file, at most about `limit` bytes of them.

    An unfinished last line stays for the next look. Bytes that are no UTF-8 become replacement characters. A missing
    file has no lines. A line longer than `limit` comes in pieces: nobody has to hold a gigabyte without an end.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return Lines(lines=(), offset=0, restarted=offset > 0)
    restarted = size < offset
    start = 0 if restarted else offset
    if size == start:
        return Lines(lines=(), offset=start, restarted=restarted)
    with open_regular(path) as stream:
        stream.seek(start)
        data = stream.read(limit)
    end = data.rfind(b"\n") + 1
    if not end and len(data) == limit:
        return Lines(lines=(data.decode("utf-8", errors="replace"),), offset=start + limit, restarted=restarted)
    text = data[:end].decode("utf-8", errors="replace")
    lines = tuple(text.split("\n")[:-1]) if end else ()
    return Lines(lines=lines, offset=start + end, restarted=restarted)


def read_json(path: Path) -> Any:
    """The JSON value in a file of ours; raises `BrokenFile` where it is none, or `FileNotFoundError`.

    The file is read whole: only for small files.
    """
    try:
        return json.loads(read_whole(path).decode("utf-8"))
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits, and nesting thousands deep
        raise BrokenFile("error.broken-file", path=str(path), why=str(error)) from error


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """Strict JSON (no NaN) in the one form in which ZeroBoard writes files."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent) + ("\n" if indent else "")


def foreign_json(value: Any) -> str:
    """JSON of somebody else's file that goes on with a change: what strict JSON has not (NaN, half a surrogate) stays.

    Configs of some models hold `Infinity`; transformers reads and writes it so.
    """
    return json.dumps(value, indent=2) + "\n"


def sha256_text(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8")).hexdigest()


def sha256_file(path: Path) -> str:
    """The hash of a file's content, streamed."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
