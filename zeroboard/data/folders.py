"""A folder of data files: which files of it are meant."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from zeroboard.contract.hub import MANIFEST

_DATA = re.compile(r".+\.(?:jsonl?|ndjson|csv|tsv|tab|txt|parquet)(?:\.(?:gz|zst))?", re.IGNORECASE)
MOST = 20_000
"""Files and folders that are looked at; a folder with more is no data set, but somebody's disk."""
CLOSED = ("/proc", "/sys", "/dev", "/run/credentials")
"""Folders of the system in which no data lies, and where reading may never end."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What lies in a folder and in the folders in it, by name; hidden files, and what links lead to, are left out."""

    data: tuple[Path, ...]
    """Files with an ending of data."""
    others: tuple[Path, ...]


def named_as_data(name: str) -> bool:
    """Whether the ending of a file's name is one of data."""
    return _DATA.fullmatch(name) is not None


def is_closed(path: Path) -> bool:
    """Whether it lies where no data does."""
    resolved = path.resolve()
    return any(resolved.is_relative_to(folder) for folder in CLOSED)


def list_files(path: Path, most: int = MOST) -> Listing | None:
    """The files of a folder; None where there are too many, or where no data lies."""
    if is_closed(path):
        return None
    data: list[Path] = []
    others: list[Path] = []
    seen = 0
    for place, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        seen += len(folders) + len(names)
        if seen > most:
            return None
        for name in sorted(names):
            file = Path(place) / name
            if not name.startswith(".") and name != MANIFEST and file.is_file():
                (data if named_as_data(name) else others).append(file)
    return Listing(tuple(data), tuple(others))


def data_files(path: Path) -> tuple[Path, ...]:
    """The file itself, or the data files of a folder; none where the folder holds too many."""
    if not path.is_dir():
        return (path,)
    found = list_files(path)
    return found.data if found is not None else ()
