"""Data files that come through the page: kept in `cache/data/` under a name of their own, if they are data.

Covered: a name that could lead elsewhere, two files of one name, a file that is too large or does not fit on the disk,
one that is no data. Not covered: how the bytes reach this machine; that is the page's business.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path

from zeroboard.contract.problems import Problem
from zeroboard.data.judge import judge
from zeroboard.errors import Refused, UsageError
from zeroboard.files import sync_folder
from zeroboard.paths import Paths, confine

LARGEST = 2 << 30
"""Bytes of a data file that are taken; a larger one is better named by its path than carried over."""
RESERVE = 256 << 20
"""Bytes that stay free on the disk."""
BLOCK = 1 << 20

_STRANGE = re.compile(r"[^\w.-]+")


def keep_data(paths: Paths, source: Path, name: str, *, largest: int = LARGEST, reserve: int = RESERVE) -> Path:
    """Copy a data file into `cache/data/` and return its place; the same content under the same name is kept once.

    `name` is what the user calls it. Raises `UsageError` where it is too large or the disk is too full, and `Refused`
    with the reasons where nothing in it can be trained on; then nothing is kept.
    """
    size = source.stat().st_size
    if size > largest:
        raise UsageError("ui.upload.too-large", name=plain(name), most=_gib(largest))
    paths.data.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(paths.data).free
    if size + reserve > free:
        raise UsageError("ui.upload.no-room", name=plain(name), need=_gib(size + reserve), free=_gib(free))
    handle, temporary = tempfile.mkstemp(prefix=".upload-", dir=paths.data)
    try:
        digest = hashlib.sha256()
        with os.fdopen(handle, "wb") as target, source.open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
                target.write(block)
            target.flush()
            os.fsync(target.fileno())
        _refuse_no_data(Path(temporary), name)
        place = confine(paths.data / _unique(name, digest.hexdigest()), [paths.data])
        Path(temporary).chmod(0o644)
        Path(temporary).replace(place)
    finally:
        Path(temporary).unlink(missing_ok=True)
    sync_folder(paths.data)
    return place


def plain(name: str) -> str:
    """The name without folders and without what no file name needs; never empty, never hidden."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    return _STRANGE.sub("-", last).strip(".-")[-80:].lstrip(".-") or "data"


def _unique(name: str, digest: str) -> str:
    """`rows.jsonl` → `rows-1f3a9c20.jsonl`: two files of one name stay apart, the same file comes back to its place."""
    known = Path(plain(name))
    ending = known.suffix if known.suffix.lower() in (".json", ".jsonl") else ".jsonl"
    stem = known.stem if known.suffix.lower() in (".json", ".jsonl") else known.name
    return f"{stem}-{digest[:8]}{ending}"


def _refuse_no_data(path: Path, name: str) -> None:
    report = judge(path)
    if report.trainable:
        return
    first = Problem(code="data-refused", field="data.path", params={"path": plain(name), "total": report.total})
    reasons = [
        Problem(code="data-refused", field="data.path", says=found.message_key, params=found.params)
        for found in report.problems
        if found.severity == "error" or found.code == "unknown-format"
    ]
    raise Refused([first, *reasons])


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
