"""Data files that come through the page: kept in `cache/data/` under the name that they have, if they are data.

Covered: a name that could lead elsewhere, two files of one name, a file that is too large or does not fit on the disk,
one that is no data; listing and deleting what came. Not covered: how the bytes reach this machine, which is the page's
business, and whether every row is usable, which `judging` tells.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from zeroboard.contract.problems import Problem
from zeroboard.contract.reports import TRAINABLE_FORMATS
from zeroboard.contract.state import LIVE
from zeroboard.data.opening import open_data
from zeroboard.errors import Busy, NotFound, Refused, UsageError, ZeroBoardError
from zeroboard.files import sha256_file, sync_folder
from zeroboard.paths import Paths, confine
from zeroboard.runs import registry

LARGEST = 2 << 30
"""Bytes of a data file that are taken; a larger one is better named by its path than carried over."""
RESERVE = 256 << 20
"""Bytes that stay free on the disk."""
BLOCK = 1 << 20
LONGEST = 80
"""Characters of a name that are kept."""

_STRANGE = re.compile(r"[^\w.-]+")
_ENDING = re.compile(r"(?:\.[A-Za-z0-9]{1,8})?(?:\.(?:gz|zst))?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that came through the page."""

    path: Path
    size: int
    """Bytes."""
    came: float
    """Seconds since the epoch."""

    @property
    def name(self) -> str:
        return self.path.name


def keep_data(paths: Paths, source: Path, name: str, *, largest: int = LARGEST, reserve: int = RESERVE) -> Path:
    """Copy a data file into `cache/data/` and return its place; the same content under the same name is kept once.

    `name` is what the user calls it; name and ending stay, and nothing is ever overwritten. Raises `UsageError` where
    it is too large or the disk is too full, and `Refused` with the reasons where it is no data; then nothing is kept.
    """
    size = source.stat().st_size
    if size > largest:
        raise UsageError("ui.upload.too-large", name=plain(name), most=_gib(largest))
    paths.data.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(paths.data).free
    if size + reserve > free:
        raise UsageError("ui.upload.no-room", name=plain(name), need=_gib(size + reserve), free=_gib(free))
    ending = _parts(plain(name))[1]  # a table is told from prose by it
    handle, temporary = tempfile.mkstemp(prefix=".upload-", suffix=ending, dir=paths.data)
    try:
        digest = hashlib.sha256()
        with os.fdopen(handle, "wb") as target, source.open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
                target.write(block)
            target.flush()
            os.fsync(target.fileno())
        _refuse_no_data(Path(temporary), name)
        Path(temporary).chmod(0o644)
        place = _place(paths, Path(temporary), plain(name), digest.hexdigest())
    finally:
        Path(temporary).unlink(missing_ok=True)
    sync_folder(paths.data)
    return place


def _place(paths: Paths, file: Path, name: str, digest: str) -> Path:
    """Move the file to the first of its names that is free, or find it there already."""
    size = file.stat().st_size
    for candidate in _names(name, digest):
        if candidate.lower() == paths.hub_data.name:  # the folder of what comes from a hub, there or not yet
            continue
        place = confine(paths.data, [paths.data]) / candidate
        try:
            place.open("xb").close()
        except FileExistsError:
            regular = place.is_file() and not place.is_symlink()
            if regular and place.stat().st_size == size and sha256_file(place) == digest:
                return place
            continue
        file.replace(place)
        return place
    raise AssertionError("there is always another name")  # pragma: no cover


def _names(name: str, digest: str) -> Iterator[str]:
    """`rows.jsonl`, `rows-1f3a9c20.jsonl`, `rows-1f3a9c20-2.jsonl`, …"""
    stem, ending = _parts(name)
    yield name
    yield f"{stem}-{digest[:8]}{ending}"
    number = 2
    while True:
        yield f"{stem}-{digest[:8]}-{number}{ending}"
        number += 1


def uploads(paths: Paths) -> tuple[Upload, ...]:
    """The files that came, by name; links and hidden files are none."""
    if not paths.data.is_dir():
        return ()
    found = []
    for place in sorted(paths.data.iterdir(), key=lambda place: place.name.lower()):
        if place.name.startswith(".") or place.is_symlink() or not place.is_file():
            continue
        try:
            facts = place.stat()
        except FileNotFoundError:  # deleted since
            continue
        found.append(Upload(path=place, size=facts.st_size, came=facts.st_mtime))
    return tuple(found)


def delete(paths: Paths, name: str) -> None:
    """Delete a file that came. Raises `NotFound` where none of this name did, and `Busy` while a run needs it."""
    known = next((upload for upload in uploads(paths) if upload.name == name), None)
    if known is None:
        raise NotFound("error.upload-not-found", name=name)
    for state in registry.list_runs(paths):
        if state.state in LIVE and _trains_on(paths, state.id, known.path):
            raise Busy("error.upload-busy", name=name, run=state.id)
    known.path.unlink(missing_ok=True)


def _trains_on(paths: Paths, run_id: str, file: Path) -> bool:
    try:
        resolved = registry.read_plan(paths.run(run_id)).resolved
    except ZeroBoardError:  # damaged or gone: its own page says so
        return False
    if resolved is None:
        return False
    return file.resolve() in {Path(path).resolve() for path in (resolved.data_path, *resolved.mix.paths)}


def plain(name: str) -> str:
    """The name without folders and without what no file name needs; never empty, never hidden."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    stem, ending = _parts(_STRANGE.sub("-", last).strip(".-"))
    return (stem[-LONGEST:].lstrip(".-") or "data") + ending


def _parts(name: str) -> tuple[str, str]:
    """`rows.csv.gz` → `rows`, `.csv.gz`."""
    found = _ENDING.search(name)
    at = found.start() if found else len(name)
    return (name[:at], name[at:]) if at else (name, "")


def _refuse_no_data(path: Path, name: str) -> None:
    """By a look at its beginning. A file whose columns are not recognised is kept: a person can say what they mean."""
    first = open_data(path).files[0]
    if first.kind in TRAINABLE_FORMATS or (first.kind == "unknown" and first.columns):
        return
    fault = first.fault
    says = (fault.says or f"data.{fault.code}") if fault is not None else f"data.unknown-format.{first.kind}"
    params = fault.params if fault is not None else {}
    raise Refused(
        [
            Problem(
                code="data-refused", field="data.path", says="problem.data-refused.upload", params={"path": plain(name)}
            ),
            Problem(code="data-refused", field="data.path", says=says, params=params),
        ]
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
