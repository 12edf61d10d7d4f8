"""Facts about this machine: sane figures, and none where there is nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from zeroboard import messages
from zeroboard.monitor import host
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
