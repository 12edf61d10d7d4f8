"""The state machine: only allowed ways, nothing lost on a full disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import make_run
from zeroboard.contract.state import TRANSITIONS
from zeroboard.files import write_atomic
from zeroboard.paths import Paths
from zeroboard.runs.follow import Follower
from zeroboard.runs.life import RESERVE, Life
from zeroboard.runs.registry import read_state


def test_every_way_that_is_not_in_the_table_is_refused(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    for old, allowed in TRANSITIONS.items():
        for new in TRANSITIONS:
            life = Life(run, read_state(run).model_copy(update={"state": old}))
            if new in allowed or new == old:
                life.go(new)
                assert life.state.state == new
            else:
                with pytest.raises(ValueError, match="cannot go"):
                    life.go(new)


def test_progress_is_written_now_and_then_and_a_transition_at_once(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    life = Life(run, read_state(run))
    life.go("starting")
    for step in range(1000):
        life.note(step=step)
        life.flush()
    assert read_state(run).step == 0
    life.go("running")
    assert read_state(run).step == 999 and read_state(run).state == "running"


def test_what_a_full_disk_refused_is_written_later_in_order(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    full = True

    def write(path: Path, content: str) -> None:
        if full:
            raise OSError(28, "No space left on device")
        write_atomic(path, content)

    def append(path: Path, line: str) -> None:
        if full:
            raise OSError(28, "No space left on device")
        with path.open("a") as stream:
            stream.write(line + "\n")

    life = Life(run, read_state(run), write=write, append=append)
    life.go("starting")
    life.go("failed")
    assert life.failing_since is not None and read_state(run).state == "planned"
    full = False
    assert life.settle(patience=1) and life.failing_since is None
    assert read_state(run).state == "failed"
    events = Follower(run.events).read()
    assert [(e.seq, getattr(e, "state", None)) for e in events] == [(1, "starting"), (2, "failed")]


def test_the_end_is_said_on_a_disk_that_stays_full(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    full = False

    def write(path: Path, content: str) -> None:
        if full and run.reserve.exists():
            raise OSError(28, "No space left on device")
        write_atomic(path, content)

    life = Life(run, read_state(run), write=write)
    life.set_aside()
    assert run.reserve.stat().st_size == RESERVE
    life.go("starting")
    full = True
    life.go("running")
    assert read_state(run).state == "starting" and run.reserve.exists()  # only the end is worth it
    life.go("failed")
    assert read_state(run).state == "failed" and life.failing_since is None and not run.reserve.exists()


def test_no_room_is_kept_by_a_run_that_has_ended(tmp_path: Path) -> None:
    run = make_run(Paths(tmp_path))
    life = Life(run, read_state(run))
    life.set_aside()
    life.go("starting")
    assert run.reserve.exists()
    life.go("stopping")
    life.go("stopped")
    assert not run.reserve.exists()
