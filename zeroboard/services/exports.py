"""Exports: judged before they begin, done by a process of their own, found again, ended.

An export is a record in `cache/exports/.jobs/<id>/` and a process that works through it. The page starts that process
detached, so that it goes on whatever becomes of the page; the command line does the same work itself.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from zeroboard.checkpoints.consolidate import judge_room
from zeroboard.checkpoints.folder import list_folder
from zeroboard.checkpoints.weights import ADAPTER, model_files
from zeroboard.checkpoints.whole import clear_leftovers
from zeroboard.contract.exports import GB, LEAST_SHARD, ExportReport, ExportState, ExportWish
from zeroboard.contract.plan import DTYPE_BYTES
from zeroboard.contract.problems import Problem
from zeroboard.errors import BrokenFile, NotFound, Refused, UnsafePath, UsageError
from zeroboard.files import to_json, write_atomic
from zeroboard.headers import ELEMENT_BYTES, read_header
from zeroboard.paths import HOME, ExportPaths, Paths, confine
from zeroboard.runs.launcher import Popen
from zeroboard.runs.processes import alive
from zeroboard.services import children, export_source, gguf, push

LONGEST_NAME = 200
"""Bytes of a folder's name: room is left for what is written beside it."""

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def parse_size(text: str) -> int:
    """`5GB`, `500 MB`, `2GiB` in bytes. Raises `UsageError`, also for less than a file of weights may be."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) *([kmgt]i?|)b?", text.strip().lower())
    size = int(float(found[1]) * _UNITS.get(found[2], 0)) if found else 0
    if size < LEAST_SHARD:
        raise UsageError("export.bad-size", size=text[:40])
    return size


def page_target(paths: Paths, name: str) -> Path:
    """The folder that a person names in the page: always one inside `cache/exports`.

    Raises `UsageError` for what is no name, `UnsafePath` for one that leads elsewhere, by `..`, `/` or a link.
    """
    name = name.strip()
    if not name or name.startswith(".") or "\0" in name or len(name.encode("utf-8", "replace")) > LONGEST_NAME:
        raise UsageError("export.bad-name", name=name[:60])
    target = paths.exports / name
    if target.parent != paths.exports or target.is_symlink():
        raise UnsafePath("error.unsafe-path", path=name)
    paths.exports.mkdir(parents=True, exist_ok=True)
    confine(target, [paths.exports])
    return target


def any_target(text: str) -> Path:
    """The folder that a person names on the command line. Raises `UsageError` for what can be no folder."""
    try:
        text.encode("utf-8")
        target = Path(text).expanduser().absolute()
        target.exists()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError("export.bad-name", name=ascii(text)[:60]) from error
    if not text.strip() or len(os.fsencode(target.name)) > LONGEST_NAME:
        raise UsageError("export.bad-name", name=ascii(text)[:60])
    return target


def judge(paths: Paths, wish: ExportWish, token: str | None = None) -> tuple[Problem, ...]:
    """Everything that stands in the way and can be seen before the work begins."""
    problems: list[Problem] = []
    target, source = Path(wish.target), Path(wish.path)
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        problems.append(Problem(code="output-exists", params={"path": str(target)}))
    elif target.resolve().is_relative_to(source.resolve()):
        problems.append(Problem(code="export-inside", params={"path": str(target), "source": str(source)}))
    if wish.merge and wish.kind == "full-model":
        problems.append(Problem(code="model-unsupported", says="export.nothing-to-merge"))
    if wish.merge and wish.kind != "full-model" and export_source.base_folder(source, _path(wish.base)) is None:
        problems.append(Problem(code="model-missing", says="export.base-gone", params={"path": str(source)}))
    if wish.gguf:
        if wish.kind == "lora-adapter" and not wish.merge:
            problems.append(Problem(code="gguf-needs-model"))
        problems += gguf.judge(wish.gguf, wish.llama_cpp)
    if wish.push:
        problems += push.judge(wish.push, token)
    if not problems:
        problems += judge_room(target, expected_bytes(wish) or 0)
    return tuple(problems)


def expected_bytes(wish: ExportWish) -> int | None:
    """About how many bytes will be written, by the headers; None where they do not tell (ZeRO states)."""
    path = Path(wish.path)
    if wish.kind == "zero-checkpoint":
        return None
    folder = export_source.base_folder(path, _path(wish.base)) if wish.merge else path
    if folder is None:
        return None
    listed = list_folder(folder)
    names = [ADAPTER] if wish.kind == "lora-adapter" and not wish.merge else model_files(listed)
    width = DTYPE_BYTES[wish.dtype] if wish.dtype else None
    size = elements = 0
    for name in names:
        try:
            tensors = read_header(folder / name).tensors.values()
        except (BrokenFile, OSError):  # said by name when it is read for good
            return None
        elements += sum(tensor.elements for tensor in tensors)
        size += sum(tensor.elements * (width or ELEMENT_BYTES.get(tensor.dtype, 4)) for tensor in tensors)
    return size + (int(elements * gguf.BYTES.get(wish.gguf, 2.0)) if wish.gguf else 0)


def create(paths: Paths, wish: ExportWish, token: str | None = None) -> ExportPaths:
    """Judge a wish and make its record. Raises `Refused` with everything that stands in the way."""
    if problems := judge(paths, wish, token):
        raise Refused(problems)
    now = time.time()
    job = paths.export(f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{secrets.token_hex(2)}")
    job.folder.mkdir(parents=True)
    write_atomic(job.wish, wish.model_dump_json(indent=2))
    write_atomic(job.state, to_json(ExportState(id=job.id, created=now).model_dump(mode="json")))
    return job


def start(paths: Paths, wish: ExportWish, token: str | None = None, *, popen: Popen = subprocess.Popen) -> str:
    """Begin an export in a process that outlives this one; returns its id. Raises `Refused`."""
    job = create(paths, wish, token)
    with job.log.open("ab") as log:
        process = popen(
            [sys.executable, "-m", "zeroboard.services", "export", str(job.folder)],
            cwd=HOME,
            env=children.environment(),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps({"token": token}).encode() + b"\n")
        process.stdin.close()
    except BrokenPipeError:  # it ended at once; its state says so, and its log why
        pass
    threading.Thread(target=process.wait, daemon=True, name=f"reap {job.id}").start()  # no zombie stays with us
    return job.id


def read_wish(job: ExportPaths) -> ExportWish:
    """What was asked for. Raises `NotFound`, `BrokenFile`."""
    return ExportWish.model_validate(_read(job, job.wish, ExportWish))


def read_state(job: ExportPaths) -> ExportState:
    """How far an export is; `lost` where its process ended without a word. Raises `NotFound`, `BrokenFile`.

    What a lost one had made on the way, and nobody can use, is removed.
    """
    state = ExportState.model_validate(_read(job, job.state, ExportState))
    if state.state != "running" or alive(state.process):
        return state
    fresh = state.process is None and time.time() - state.created < 60
    # it may have said its last word between the two looks
    again = ExportState.model_validate(_read(job, job.state, ExportState))
    if fresh or again.state != "running":
        return again
    if again.host == socket.gethostname():  # a process of another machine may live and not be seen from here
        _clear(job)
    return again.model_copy(update={"state": "lost"})


def _clear(job: ExportPaths) -> None:
    """Remove the adapter that ZeRO states became on the way to a merge, whole or half."""
    with suppress(OSError):
        clear_leftovers(job.adapter)
    shutil.rmtree(job.adapter, ignore_errors=True)


def read_report(job: ExportPaths) -> ExportReport | None:
    """What was delivered; None where nothing was."""
    try:
        return ExportReport.model_validate_json(job.report.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def list_exports(paths: Paths) -> tuple[ExportState, ...]:
    """All that are remembered, newest first; a record that cannot be read is left out."""
    found = []
    for folder in paths.export_jobs.iterdir() if paths.export_jobs.is_dir() else ():
        try:
            found.append(read_state(paths.export(folder.name)))
        except (NotFound, BrokenFile):
            continue
    return tuple(sorted(found, key=lambda state: (state.created, state.id), reverse=True))


def cancel(paths: Paths, export_id: str) -> None:
    """Ask that an export be ended. Nothing of it stays but, where it was being sent, the folder. Raises `NotFound`."""
    job = paths.export(export_id)
    read_state(job)
    job.cancel.touch()


def forget(paths: Paths, export_id: str) -> None:
    """Remove the record of an export that has ended; what it delivered stays. Raises `NotFound`, `UsageError`."""
    job = paths.export(export_id)
    if read_state(job).state == "running":
        raise UsageError("export.still-running", id=export_id)
    shutil.rmtree(job.folder)


def _read(job: ExportPaths, file: Path, kind: type[ExportWish] | type[ExportState]) -> ExportWish | ExportState:
    try:
        return kind.model_validate_json(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound("error.export-not-found", id=job.id) from error
    except (ValidationError, OSError) as error:
        raise BrokenFile("error.broken-file", path=str(file), why=str(error).splitlines()[0]) from error


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


SHARD_CHOICES = (("1 GB", GB), ("2 GB", 2 * GB), ("5 GB", 5 * GB), ("10 GB", 10 * GB))
"""Offered in the page."""
