"""Starting a supervisor: a process of its own session, so that it outlives whoever started it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from zeroboard.paths import HOME, RunPaths

Popen = Callable[..., "subprocess.Popen[Any]"]
"""What starts a process: `subprocess.Popen`, or what a test gives instead."""


def start(run: RunPaths, *, adopt: bool = False, popen: Popen = subprocess.Popen) -> subprocess.Popen[Any]:
    """Start the supervisor of a run: `python -m zeroboard.runs supervise [--adopt] FOLDER`."""
    argv = [sys.executable, "-m", "zeroboard.runs", "supervise", *(["--adopt"] if adopt else []), str(run.folder)]
    run.logs.mkdir(exist_ok=True)
    with run.supervisor_log.open("ab") as log:
        process = popen(
            argv,
            cwd=HOME,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    threading.Thread(target=process.wait, daemon=True, name=f"reap {run.id}").start()  # no zombie stays with us
    return process
