"""What a named folder is: measured on real ones."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from zeroboard.monitor.folders import folder_facts


def test_a_folder_is_measured(tmp_path: Path) -> None:
    facts = folder_facts(str(tmp_path))
    assert facts.exists and facts.writable and facts.path == str(tmp_path.resolve())
    assert facts.filesystem and facts.free is not None and facts.free > 0


@pytest.mark.parametrize(
    ("number", "direct"), [(None, True), (errno.EINVAL, False), (errno.EOPNOTSUPP, None), (errno.EISDIR, None)]
)
def test_whether_files_can_be_written_past_the_cache_is_tried_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int | None, direct: bool | None
) -> None:
    opened = os.open

    def opens(path: object, flags: int, *rest: object) -> int:
        if flags & os.O_DIRECT and number is not None:
            raise OSError(number, "no")
        # a file system in memory may not take the flag: that it was asked for is what counts here
        return opened(path, flags & ~os.O_DIRECT, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", opens)
    assert folder_facts(str(tmp_path)).direct is direct and not list(tmp_path.iterdir())


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
