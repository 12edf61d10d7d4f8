"""What runs that are gone have left on the disks that they swapped to."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fakes import make_run
from zeroboard.contract.state import RunState
from zeroboard.files import to_json, write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs.leftovers import left_over
from zeroboard.runs.registry import read_state
from zeroboard.swapfolders import CONFIG, MARK, claim


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run that this very process swaps for."""
    run = make_run(Paths(tmp_path / "cache"))
    folder = tmp_path / "fast" / run.id
    folder.parent.mkdir()
    zero = {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": str(folder)}}
    write_atomic(run.folder / CONFIG, to_json({"zero_optimization": zero}))
    claim(folder, run, started=psutil.Process().create_time())
    (folder / "0.tensor.swp").write_bytes(bytes(4096))
    return run


def change(mark: Path, **changes: Any) -> None:
    mark.write_text(json.dumps(json.loads(mark.read_text()) | changes))


def go(run: RunPaths, state: str) -> None:
    changed = read_state(run).model_dump(mode="json") | {"state": state}
    write_atomic(run.state, RunState.model_validate(changed).model_dump_json())


def test_the_folder_of_a_process_that_is_gone_is_named_with_its_size(tmp_path: Path, run: RunPaths) -> None:
    paths, folder = Paths(tmp_path / "cache"), tmp_path / "fast" / run.id
    (tmp_path / "fast" / "somebody-else").mkdir()
    assert left_over(paths) == ()  # this process made it, and lives
    change(folder / MARK, pid=2**22 + 7)
    (found,) = left_over(paths)
    assert (found.run, found.folder) == (run.id, folder) and 4096 <= found.bytes < 5000


def test_of_another_machine_the_state_of_the_run_says_whether_it_is_over(tmp_path: Path, run: RunPaths) -> None:
    """A container that was made anew is another machine by its name."""
    paths, mark = Paths(tmp_path / "cache"), tmp_path / "fast" / run.id / MARK
    change(mark, pid=2**22 + 7, host="another-machine")
    go(run, "running")
    assert left_over(paths) == ()  # who can tell
    go(run, "failed")
    (found,) = left_over(paths)
    assert found.run == run.id
    change(mark, host=os.uname().nodename, pid=os.getpid(), started=psutil.Process().create_time())
    assert left_over(paths) == ()  # its own process is seen to live, whatever the state says
