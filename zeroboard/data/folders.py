"""A folder of data files: which files of it are meant."""

from __future__ import annotations

import re
from pathlib import Path

_DATA = re.compile(r".+\.(?:jsonl?|ndjson|csv|tsv|tab|txt|parquet)(?:\.(?:gz|zst))?", re.IGNORECASE)
MOST = 10_000
"""Files of a folder that are looked at."""


def data_files(path: Path) -> tuple[Path, ...]:
    """The file itself, or the data files of a folder and of the folders in it, by name; hidden ones are left out.

    Links to folders are not followed.
    """
    if not path.is_dir():
        return (path,)
    found: list[Path] = []
    for file in sorted(path.rglob("*")):
        inside = file.relative_to(path)
        if any(part.startswith(".") for part in inside.parts) or not _DATA.fullmatch(file.name):
            continue
        if file.is_file():
            found.append(file)
        if len(found) == MOST:
            break
    return tuple(found)


def left_out(path: Path, taken: tuple[Path, ...]) -> tuple[str, ...]:
    """Names of the files of a folder that are not taken for data, hidden ones apart."""
    if not path.is_dir():
        return ()
    others = (file for file in sorted(path.rglob("*")) if file.is_file() and file not in set(taken))
    names = (str(file.relative_to(path)) for file in others)
    return tuple(name for name in names if not any(part.startswith(".") for part in Path(name).parts))
