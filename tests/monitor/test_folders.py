"""What a named folder is: measured on real ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zeroboard.monitor.folders import folder_facts


def test_a_folder_is_measured(tmp_path: Path) -> None:
    facts = folder_facts(str(tmp_path))
    assert facts.exists and facts.writable and facts.path == str(tmp_path.resolve())
    assert facts.filesystem and facts.free is not None and facts.free > 0


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no shared memory here")
def test_shared_memory_is_a_file_system_in_memory() -> None:
    assert folder_facts("/dev/shm").filesystem == "tmpfs"


@pytest.mark.parametrize("path", ["", "/no/such", "a\x00b", "\udc80", "x" * 5000])
def test_what_is_no_folder_is_not_there(path: str) -> None:
    assert not folder_facts(path).exists


def test_a_file_is_no_folder_and_a_closed_folder_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert not folder_facts(str(tmp_path / "file")).exists
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert folder_facts(str(closed)).writable == (os.geteuid() == 0)
