"""Locks: one holder, known by name, and none once it is dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from zeroboard.paths import Paths
from zeroboard.runs.locks import device_lock, holder, holders, run_lock

HOLD = """
import sys, time
from pathlib import Path
from zeroboard.paths import Paths
from zeroboard.runs.locks import device_lock
assert device_lock(Paths(Path(sys.argv[1])), "GPU-1/odd").take("the-run")
print("held", flush=True)
time.sleep(60)
"""


def test_one_holds_it_and_the_others_are_told_who(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    first, second = device_lock(paths, "cpu"), device_lock(paths, "cpu")
    assert first.take("run-a") and not second.take("run-b")
    assert holders(paths) == {"cpu": "run-a"}
    first.release()
    assert holders(paths) == {} and second.take("run-b")
    second.release()


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"held\n"
        assert holders(paths) == {"GPU-1/odd": "the-run"}
        lock = device_lock(paths, "GPU-1/odd")
        assert not lock.take("mine")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert holders(paths) == {} and lock.take("mine")
        lock.release()
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def test_what_was_never_locked_has_no_holder(tmp_path: Path) -> None:
    assert holder(tmp_path / "run.lock") is None
    lock = run_lock(tmp_path / "run.lock")
    lock.release()
    assert not (tmp_path / "run.lock").exists()


def test_looking_asks_for_no_more_than_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, real, asked = Paths(tmp_path), os.open, []

    def watched(path: Path, flags: int, *rest: int) -> int:
        asked.append(flags)
        return real(path, flags, *rest)

    lock = device_lock(paths, "cpu")
    assert lock.take("run-a")
    monkeypatch.setattr(os, "open", watched)
    assert holders(paths) == {"cpu": "run-a"}
    assert asked and not any(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) for flags in asked)
    lock.release()
