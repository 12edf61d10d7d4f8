"""A folder is one data set: its data files in the order of their names, and what is left out is told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.data.rows_of import alpaca, chat, codes, lines
from zeroboard.data import folders
from zeroboard.data.conversations import conversations
from zeroboard.data.folders import data_files, list_files
from zeroboard.data.judge import judge
from zeroboard.errors import Refused


def test_rows_are_numbered_through_the_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    lines(tmp_path / "a.jsonl", alpaca("1"), alpaca(""))
    lines(tmp_path / "b" / "more.json", chat(("user", "q"), ("assistant", "2")), chat(("user", "q")))
    (tmp_path / "c.csv").write_text("instruction,output\nq,3\n")
    (tmp_path / "README.md").write_text("What this is.")
    (tmp_path / "dataset_info.json").write_text('{"a": {"file_name": "a.jsonl"}}')
    (tmp_path / ".hidden.jsonl").write_text("{}")
    seen: list[float] = []
    report = judge(tmp_path, on_progress=seen.append)
    assert (report.format, report.total, report.usable) == ("alpaca", 5, 3)
    assert [(f.name, f.format, f.first, f.rows) for f in report.files] == [
        ("a.jsonl", "alpaca", 1, 2), ("c.csv", "alpaca", 3, 1), ("b/more.json", "messages", 4, 2),
    ]  # fmt: skip
    assert codes(report) == {"not-a-data-file": (), "empty-output": (2,), "ends-with-user": (5,)}
    assert report.problems[0].params == {"count": 2, "names": "dataset_info.json, README.md"}
    assert [c.row for c in conversations(tmp_path)] == [1, 3, 4]
    assert seen == sorted(seen) and seen[-1] == 1.0


def test_a_file_that_breaks_off_late_refuses_the_folder(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", alpaca())
    (tmp_path / "b.json").write_text(json.dumps([alpaca()] * 300)[:-1])
    report = judge(tmp_path)
    assert report.usable == 0 and codes(report) == {"not-json": (302,)}
    lines(tmp_path / "c.jsonl", alpaca("Another."))
    report = judge(tmp_path)
    assert report.usable == 0 and not report.trainable, "what comes after it does not make it whole"
    with pytest.raises(Refused):
        list(conversations(tmp_path))


def test_a_folder_without_data_or_with_a_whole_disk_in_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert codes(judge(tmp_path)) == {"empty-file": ()}
    assert codes(judge(Path("/proc/self"))) == {"path-refused": ()}
    lines(tmp_path / "a.jsonl", alpaca())
    assert list_files(tmp_path, most=0) is None
    monkeypatch.setattr(folders.list_files, "__defaults__", (0,))
    assert codes(judge(tmp_path)) == {"path-refused": ()} and data_files(tmp_path) == ()


def test_links_to_folders_and_pipes_are_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "set"
    inside.mkdir()
    (tmp_path / "out").mkdir()
    lines(tmp_path / "out" / "x.jsonl", alpaca())
    (inside / "loop").symlink_to(tmp_path)
    os.mkfifo(inside / "pipe.jsonl")
    lines(inside / "a.jsonl", alpaca())
    assert data_files(inside) == (inside / "a.jsonl",)
