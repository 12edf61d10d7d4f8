"""The beats of a rank: what they say, how often, and that nothing about them ends a training."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from zeroboard.contract.beats import read_beats
from zeroboard.engine.heart import Heart
from zeroboard.paths import RunPaths


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    (tmp_path / "a-run").mkdir()
    return RunPaths(tmp_path / "a-run")


def until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_heart_tells_where_the_training_is_and_since_when(run: RunPaths) -> None:
    heart = Heart(run, 3, look_every=0.02)
    heart.start()
    (first,) = read_beats(run)
    assert (first.rank, first.pid, first.where, first.step, first.moves) == (3, os.getpid(), "start", 0, 0)
    heart.at("forward")
    heart.at("wait", 7)
    until(lambda: read_beats(run)[0].moves == 2)
    (beat,) = read_beats(run)
    assert (beat.where, beat.step) == ("wait", 7) and first.moved < beat.moved <= beat.time
    heart.at("save")
    heart.stop()
    (last,) = read_beats(run)
    assert (last.where, last.step, last.moves) == ("end", 7, 4)
    assert [path.name for path in run.beats.iterdir()] == ["rank_3.json"]


def test_a_training_that_hangs_still_beats(run: RunPaths) -> None:
    heart = Heart(run, 0, look_every=0.02, beat_every=0.05)
    heart.start()
    before = read_beats(run)[0]
    until(lambda: read_beats(run)[0].time > before.time)
    assert read_beats(run)[0].moved == before.moved
    heart.stop()


def test_a_beat_that_cannot_be_written_is_told_once_and_ends_nothing(
    run: RunPaths, caplog: pytest.LogCaptureFixture
) -> None:
    heart = Heart(run, 0, look_every=0.01)
    shutil.rmtree(run.folder)
    with caplog.at_level(logging.WARNING):
        heart.start()
        for _ in range(5):
            heart.at("forward")
            time.sleep(0.02)
        heart.stop()
    assert [record.name for record in caplog.records] == ["zeroboard.engine.heart"]
    assert not run.folder.exists() and read_beats(run) == ()
