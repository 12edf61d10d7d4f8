"""A folder as it lies on disk: names and sizes, and small JSON files read without trust.

Covered: symlinked folders are not entered, special files (pipes, devices) are never opened, JSON that is too large,
broken, nested too deep or no object is a value. Not covered: a folder that changes while it is read.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zeroboard.errors import NotFound

DEPTH = 3
"""Levels below the folder that are listed: `checkpoint-4/global_step4/file` is one below."""

MOST_FILES = 200_000
"""Where a listing ends; a folder of more files than that is not a checkpoint."""

JSON_LIMIT = 256 << 20
"""Bytes of the largest JSON file that is read (a tokenizer of a big vocabulary has 30 MB)."""


@dataclass(frozen=True, slots=True)
class Folder:
    """What lies in a folder. Names are relative to it, with `/`."""

    path: Path
    files: dict[str, int]
    """Name → bytes."""
    special: tuple[str, ...] = ()
    """Names that are no regular file: broken links, pipes, folders that cannot be read."""
    loose: bool = False
    """A single file was named instead of a folder; `files` holds only that one."""
    _read: dict[str, JsonFile] = field(default_factory=dict, compare=False, repr=False)

    def top(self) -> dict[str, int]:
        """The files that lie directly in the folder."""
        return {name: size for name, size in self.files.items() if "/" not in name}

    def json(self, name: str) -> JsonFile:
        """A JSON object in the folder, read once."""
        if name not in self._read:
            self._read[name] = _read_object(self.path / name, self.files.get(name))
        return self._read[name]


@dataclass(frozen=True, slots=True)
class JsonFile:
    """A JSON object, or why there is none."""

    value: dict[str, Any] | None
    fault: str | None = None
    """None where it was read or is simply not there; else the reason, for the sentence."""


def list_folder(path: Path) -> Folder:
    """What lies there. Raises `NotFound` where there is nothing of that name."""
    path = path.absolute()
    if path.is_file():
        return Folder(path.parent, {path.name: path.stat().st_size}, loose=True)
    if not path.is_dir():
        raise NotFound("error.path-not-found", path=str(path))
    files: dict[str, int] = {}
    special: list[str] = []
    waiting = [("", 0)]
    while waiting and len(files) < MOST_FILES:
        below, depth = waiting.pop()
        try:
            with os.scandir(path / below) as entries:
                for entry in entries:
                    name = below + entry.name
                    size = _size(entry)
                    if size is not None:
                        files[name] = size
                    elif entry.is_dir(follow_symlinks=False):
                        if depth < DEPTH:
                            waiting.append((name + "/", depth + 1))
                    else:
                        special.append(name)
        except OSError:
            special.append(below or ".")
    return Folder(path, dict(sorted(files.items())), tuple(sorted(special)))


def _size(entry: os.DirEntry[str]) -> int | None:
    """Bytes of a regular file, links followed; None for all else, such as a link that leads in a circle."""
    try:
        return entry.stat().st_size if entry.is_file() else None
    except OSError:
        return None


def _read_object(path: Path, size: int | None) -> JsonFile:
    if size is None:
        return JsonFile(None)
    if size > JSON_LIMIT:
        return JsonFile(None, f"{size} bytes")
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        return JsonFile(None, str(error) or type(error).__name__)
    return JsonFile(value) if isinstance(value, dict) else JsonFile(None, type(value).__name__)
