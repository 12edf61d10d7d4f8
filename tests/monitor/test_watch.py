"""The process that asks NVML: a line a reading, and no life of its own."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fakes import nvml
from zeroboard.monitor import watch
from zeroboard.monitor.told import Probe


class Asked:
    """Eyes that never see anything, and count."""

    looks = 0

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def look(self) -> Probe:
        Asked.looks += 1
        return Probe(says="nvml.driver-not-loaded")


def test_where_nothing_answers_it_asks_seldom_and_ends_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "Eyes", Asked)
    monkeypatch.setattr(watch, "bind_to_parent", lambda: True)
    begun, out = time.monotonic(), io.StringIO()
    assert watch.forever(out, 0.0, retry=0.01) == 0
    assert Asked.looks == watch.TRIES and time.monotonic() - begun >= 0.01 * (watch.TRIES - 1)
    lines = out.getvalue().splitlines()
    assert len(lines) == watch.TRIES
    assert {Probe.model_validate_json(line).says for line in lines} == {"nvml.driver-not-loaded"}


def test_it_dies_with_whoever_started_it(library: Path, tmp_path: Path) -> None:
    """Killed without a word, and its child asleep between two readings an hour apart."""
    code = (
        "import subprocess, sys, time\n"
        "argv = [sys.executable, '-m', 'zeroboard.monitor', 'watch', '--interval', '3600']\n"
        "child = subprocess.Popen(argv, stdout=subprocess.PIPE)\n"
        "child.stdout.readline(); print(child.pid, flush=True); time.sleep(3600)\n"
    )
    environment = nvml.environment(library, nvml.scenario("two_healthy"))
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = Path("/proc") / parent.stdout.readline().strip()
        assert (child / "cmdline").read_bytes()
        parent.kill()
        parent.wait()
    until = time.monotonic() + 5
    while child.exists() and b"State:\tZ" not in (child / "status").read_bytes() and time.monotonic() < until:
        time.sleep(0.02)
    assert time.monotonic() < until


def test_it_ends_when_nobody_reads_any_more(library: Path) -> None:
    argv = [sys.executable, "-m", "zeroboard.monitor", "watch", "--interval", "0.02"]
    environment = nvml.environment(library, nvml.scenario("two_healthy"))
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=environment, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None and process.stderr is not None
        assert len(Probe.model_validate_json(process.stdout.readline()).gpus) == 2
        process.stdout.close()
        assert process.wait(timeout=10) == 0
        assert process.stderr.read() == b""
