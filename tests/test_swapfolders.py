"""Folders that runs swap to: only those that a run made are removed."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from zeroboard import swapfolders
from zeroboard.errors import UnsafePath
from zeroboard.paths import Paths, RunPaths
from zeroboard.swapfolders import MARK, claim, named, remove


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run whose DeepSpeed file swaps to a folder of its own on a fast disk."""
    run = Paths(tmp_path / "cache").run("a-run")
    run.folder.mkdir(parents=True)
    (tmp_path / "fast").mkdir()
    swap = str(tmp_path / "fast" / "a-run")
    zero = {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": swap}, "offload_param": {"device": "cpu"}}
    (run.folder / swapfolders.CONFIG).write_text(json.dumps({"zero_optimization": zero}))
    return run


def fill(folder: Path) -> None:
    deep = folder / "zero_stage_3" / "optimizer" / "rank0"
    deep.mkdir(parents=True)
    (deep / "0.tensor.swp").write_bytes(bytes(4096))


def of_another_process(where: Path, **changes: Any) -> None:
    mark = json.loads((where / MARK).read_text()) | {"pid": 2**22 + 7, **changes}
    (where / MARK).write_text(json.dumps(mark))


def test_a_run_removes_the_folder_that_it_made_with_all_that_lies_there(tmp_path: Path, run: RunPaths) -> None:
    folder = tmp_path / "fast" / "a-run"
    assert named(json.loads((run.folder / swapfolders.CONFIG).read_text())) == (folder,)
    claim(folder, run, started=time.time())
    fill(folder)
    claim(folder, run, started=time.time())  # the run is started once more
    remove((folder,), run)
    assert not folder.exists() and (tmp_path / "fast").is_dir()


def test_what_the_run_did_not_make_stays(tmp_path: Path, run: RunPaths) -> None:
    folder = tmp_path / "fast" / "a-run"
    fill(folder)
    with pytest.raises(UnsafePath):
        claim(folder, run, started=time.time())
    remove((folder, tmp_path / "fast"), run)
    assert (folder / "zero_stage_3").is_dir() and not (folder / MARK).exists()


def test_an_empty_folder_of_a_rank_that_was_killed_before_its_mark_is_taken(tmp_path: Path, run: RunPaths) -> None:
    folder = tmp_path / "fast" / "a-run"
    folder.mkdir()
    claim(folder, run, started=time.time())
    assert (folder / MARK).exists()
    remove((folder,), run)
    (tmp_path / "empty").mkdir()
    folder.symlink_to(tmp_path / "empty", target_is_directory=True)
    with pytest.raises(UnsafePath):
        claim(folder, run, started=time.time())


def test_a_link_or_the_mark_of_another_run_gives_no_leave_to_remove(tmp_path: Path, run: RunPaths) -> None:
    other = Paths(tmp_path / "elsewhere").run("a-run")  # the same name, of another installation
    other.folder.mkdir(parents=True)
    folder = tmp_path / "fast" / "a-run"
    claim(folder, other, started=time.time())
    remove((folder,), run)
    assert (folder / MARK).exists()
    away = folder.rename(tmp_path / "away")
    of_another_process(away, folder=str(run.folder.resolve()))
    folder.symlink_to(away, target_is_directory=True)
    remove((folder,), run)
    assert (away / MARK).exists() and folder.is_symlink()


def test_what_lies_behind_a_link_in_the_folder_is_not_removed(tmp_path: Path, run: RunPaths) -> None:
    folder, kept = tmp_path / "fast" / "a-run", tmp_path / "kept"
    fill(kept)
    claim(folder, run, started=time.time())
    (folder / "link").symlink_to(kept, target_is_directory=True)
    remove((folder,), run)
    assert not folder.exists() and (kept / "zero_stage_3").is_dir()


@pytest.mark.skipif(os.geteuid() == 0, reason="root removes what it likes")
def test_what_cannot_be_removed_now_keeps_its_mark(tmp_path: Path, run: RunPaths) -> None:
    folder = tmp_path / "fast" / "a-run"
    claim(folder, run, started=time.time())
    fill(folder)
    (folder / "zero_stage_3").chmod(0o500)
    remove((folder,), run)
    (folder / "zero_stage_3").chmod(0o700)
    assert (folder / MARK).exists()
    remove((folder,), run)
    assert not folder.exists()


def test_a_disk_that_fails_breaks_no_end_of_a_run_and_is_said(
    tmp_path: Path, run: RunPaths, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "fast" / "a-run"
    claim(folder, run, started=time.time())
    (folder / "0.tensor.swp").write_bytes(bytes(4096))

    def fail(path: Path, **options: bool) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", fail)
        remove((folder,), run)
    assert (folder / MARK).exists() and "Read-only" in caplog.text
    remove((folder,), run)
    assert not folder.exists()
