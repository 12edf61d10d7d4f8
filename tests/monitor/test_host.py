"""Facts about this machine: sane figures, and none where there is nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import nvml
from zeroboard import messages
from zeroboard.contract.host import HostFacts
from zeroboard.monitor import cgroup, host
from zeroboard.monitor.told import Probe
from zeroboard.paths import Paths


def test_the_facts_of_this_machine_are_sane(tmp_path: Path) -> None:
    facts = host.host_facts(Paths(tmp_path / "not" / "made" / "yet"))
    assert facts.cpu_count >= 1 and 0 < facts.memory_available <= facts.memory_total
    assert 0 < facts.disk_free <= facts.disk_total
    assert facts.packages["torch"] and "no-such-package" not in facts.packages
    assert facts.nvml is None or messages.has(facts.nvml)
    assert "torch" not in sys.modules or "tests.tiny" in sys.modules


def test_without_a_compiler_or_ninja_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert host.compiler() is None and host.ninja() is None
    for name in ("g++", "ninja"):
        assert host.compiler() is None
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert host.compiler() == str(tmp_path / "g++")


def test_without_the_drivers_library_no_process_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "LIBRARY", str(tmp_path / "none.so"))

    def run(*_: object, **__: object) -> None:
        raise AssertionError("started")

    facts = host.host_facts(Paths(tmp_path), run=run)  # type: ignore[arg-type]
    assert facts.nvml == "nvml.no-library" and facts.gpus == ()


@pytest.mark.parametrize(
    ("more", "patience", "key"),
    [
        ("", 20.0, None),
        ("abort fn=utilization gpu=1\n", 20.0, "nvml.crashed"),
        ("delay fn=utilization ms=60000\n", 1.5, "nvml.hangs"),
    ],
)
def test_the_library_is_asked_by_a_child_that_may_crash_or_hang(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, patience: float, key: str | None
) -> None:
    script = tmp_path / "script.txt"
    script.write_text(nvml.scenario("two_healthy").read_text() + more)
    monkeypatch.setattr(host, "LIBRARY", str(library))
    monkeypatch.setattr(host, "PROBE_TIMEOUT", patience)

    def popen(argv: list[str], **rest: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(argv, env=nvml.environment(library, script), **rest)

    told = host.probe_once(partial(host.run_briefly, popen=popen))
    assert told.says == key and len(told.gpus) == (2 if key is None else 0)


def test_one_that_not_even_sigkill_ends_is_not_waited_for() -> None:
    class Stuck(subprocess.Popen[str]):
        """As if it were in the middle of a call into the kernel."""

        def kill(self) -> None:
            stuck.append(self)

    stuck: list[Stuck] = []
    begun = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        host.run_briefly(["sleep", "60"], 0.1, popen=Stuck)
    assert time.monotonic() - begun < 2
    subprocess.Popen.kill(stuck[0])


def test_a_control_group_narrower_than_the_machine_is_told_and_one_that_is_wider_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def facts(found: cgroup.Limits) -> HostFacts:
        monkeypatch.setattr(cgroup, "limits", lambda: found)
        return host.reading(Paths(tmp_path), Probe(), cpu_percent=3.5)

    narrow = facts(cgroup.Limits(memory=1 << 28, used=1 << 27, processors=0.25))
    assert (narrow.memory_limit, narrow.memory_in_group, narrow.cpu_limit) == (1 << 28, 1 << 27, 0.25)
    assert narrow.memory_free == 1 << 27 and narrow.cpu_percent == 3.5
    wide = facts(cgroup.Limits(memory=1 << 59, used=1 << 27, processors=4096.0))
    assert (wide.memory_limit, wide.memory_in_group, wide.cpu_limit) == (None, None, None)
    assert wide.memory_free == wide.memory_available
