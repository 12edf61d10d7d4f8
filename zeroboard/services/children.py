"""A child process that works for us: its words go to a log, it ends when it is told to, and nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from zeroboard.runs.launcher import Popen
from zeroboard.runs.verbs import TAIL, Cancelled
from zeroboard.settings import SECRETS

LOOK = 0.2
"""Seconds between two looks whether it has ended."""

LEAVE = 5.0
"""Seconds that it has to leave once it was asked to."""


def environment(**more: str) -> dict[str, str]:
    """This process's own without its secrets, and `more`."""
    return {key: value for key, value in os.environ.items() if key not in SECRETS} | more


def run(
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str],
    cancelled: Callable[[], bool],
    on_look: Callable[[], None] = lambda: None,
    words: bytes = b"",
    popen: Popen = subprocess.Popen,
) -> int:
    """Run a command to its end and return its exit code.

    `words` go to its standard input; its output and errors are appended to `log`. `on_look` is called a few times a
    second. Raises `Cancelled` when `cancelled` says so: then it, and all that it started, is gone.
    """
    with log.open("ab") as sink:
        child = popen(
            list(argv), env=dict(env), stdin=subprocess.PIPE, stdout=sink, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    try:
        assert child.stdin is not None
        try:
            child.stdin.write(words)
            child.stdin.close()
        except BrokenPipeError:  # it ended before it listened; its exit code tells
            pass
        while True:
            try:
                return int(child.wait(timeout=LOOK))
            except subprocess.TimeoutExpired:
                if cancelled():
                    raise Cancelled from None
                on_look()
    finally:
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """It leads a session of its own, so its group is all of it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is not None:
            return
        os.killpg(child.pid, number)
        try:
            child.wait(timeout=LEAVE)
        except subprocess.TimeoutExpired:
            continue


def tail(log: Path) -> str:
    """The last words of a log."""
    if not log.is_file():
        return ""
    with log.open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - TAIL))
        return stream.read().decode("utf-8", errors="replace").strip()
