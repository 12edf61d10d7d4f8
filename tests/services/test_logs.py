"""Logs: the end of a file as a person wants to read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import make_run
from zeroboard.errors import NotFound
from zeroboard.paths import Paths
from zeroboard.services import logs


def test_progress_bars_are_collapsed_colours_taken_away_and_bad_bytes_replaced(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    run = make_run(paths)
    run.rank_log(0).write_bytes(b"\x1b[31mred\x1b[0m\n  1%|  |\r 50%|# |\r100%|##|\nbad \xff byte\n")
    told = logs.tail(paths, run.id, "rank 0")
    assert told.text.splitlines() == ["red", "100%|##|", "bad � byte"]
    assert told.size == run.rank_log(0).stat().st_size


def test_only_the_last_lines_are_given_and_long_ones_are_cut(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    run = make_run(paths)
    run.launcher_log.write_text("".join(f"line {n}\n" for n in range(200_000)) + "x" * 20_000 + "\n")
    lines = logs.tail(paths, run.id, "launcher", lines=3).text.splitlines()
    assert lines[:2] == ["line 199998", "line 199999"] and lines[2] == "x" * logs.LINE_BYTES


def test_a_name_that_is_not_listed_is_not_found(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    run = make_run(paths)
    for name in ("rank 7", "../state", "state"):
        with pytest.raises(NotFound):
            logs.path(paths, run.id, name)


def test_the_stamp_of_a_log_changes_when_it_grows(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    log = paths.run("one").rank_log(0)
    log.parent.mkdir(parents=True)
    log.write_text("a\n")
    before = logs.stamp(paths, "one", "rank 0")
    assert logs.stamp(paths, "one", "rank 0") == before
    with log.open("a") as stream:
        stream.write("b\n")
    assert logs.stamp(paths, "one", "rank 0") != before
