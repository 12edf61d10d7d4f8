"""The logs of a run, from its files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from zeroboard.errors import NotFound
from zeroboard.paths import Paths

TAIL_BYTES = 1 << 19
"""Most bytes at the end of a log that are looked at."""
LINE_BYTES = 8192
"""Longer lines are cut."""

_RANK = re.compile(r"rank_(\d+)\.log")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTail:
    """The end of a log."""

    text: str
    """Its last lines: progress bars collapsed to their last state, colours taken away, bad bytes replaced."""
    size: int
    """Bytes of the whole file."""


def names(paths: Paths, run_id: str) -> tuple[str, ...]:
    """The logs that are there: `launcher`, `supervisor`, `rank 0`, …"""
    folder = paths.run(run_id).logs
    found = [(p.stem, p) for p in folder.glob("*.log")] if folder.is_dir() else []
    ranks = sorted(int(m.group(1)) for _, p in found if (m := _RANK.fullmatch(p.name)))
    others = [name for name in ("launcher", "supervisor", "verbs") if (folder / f"{name}.log").is_file()]
    return (*(f"rank {n}" for n in ranks), *others)


def path(paths: Paths, run_id: str, name: str) -> Path:
    """The file of a log by its name; raises `NotFound` for a name that `names` does not give."""
    if name not in names(paths, run_id):
        raise NotFound("error.log-not-found", run=run_id, log=name)
    return paths.run(run_id).logs / f"{name.replace(' ', '_')}.log"


def stamp(paths: Paths, run_id: str, name: str) -> tuple[int, int]:
    """Size and time of change of a log, so that only one that grew is read again; raises `NotFound`."""
    facts = path(paths, run_id, name).stat()
    return facts.st_size, facts.st_mtime_ns


def tail(paths: Paths, run_id: str, name: str, lines: int = 500) -> LogTail:
    """The last lines of a log, as plain text; the file itself is never read whole."""
    with path(paths, run_id, name).open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        begin = max(0, size - TAIL_BYTES)
        stream.seek(begin)
        data = stream.read()
    if begin:
        data = data[data.find(b"\n") + 1 :]
    text = data.decode("utf-8", errors="replace")
    shown = [_plain(line) for line in text.split("\n")[-lines - 1 :]]
    return LogTail(text="\n".join(shown).strip("\n"), size=size)


def _plain(line: str) -> str:
    """One line: what a terminal would show at its end, without colours."""
    last = line.rstrip("\r").rsplit("\r", 1)[-1]
    return _COLOUR.sub("", last)[:LINE_BYTES]
