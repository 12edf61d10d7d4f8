"""Parquet: every row, nested ones too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.data.rows_of import alpaca, chat, codes, turns
from zeroboard.data.judge import judge


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=100)
    return path


def test_rows_and_nested_turns_are_read_and_progress_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [{**alpaca(f"Answer {n}"), "history": None} for n in range(1000)])
    told: list[float] = []
    report = judge(path, on_progress=told.append)
    assert (report.format, report.usable, report.problems, told[-1]) == ("alpaca", 1000, (), 1.0)
    made = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    row = chat(("user", "q"))
    row["messages"] += [made, {"role": "tool", "content": "5"}, {"role": "assistant", "content": "Five."}]
    path = write(tmp_path / "b", [row, chat(("user", "q"), ("assistant", "a"))])
    assert (judge(path).format, judge(path).usable) == ("messages", 2)
    assert turns(path)[1] == [("user", "q"), ("assistant", "a")]


def test_a_large_row_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [alpaca("short"), alpaca("long " * 300_000)])
    assert codes(judge(path)) == {"oversized-row": (2,)}


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [alpaca(f"Answer {n}") for n in range(1000)])
    data = path.read_bytes()
    for broken in (data[:-50], data[:200] + bytes(400) + data[600:]):
        path.write_bytes(broken)
        report = judge(path)
        assert report.usable == 0 and set(codes(report)) == {"not-a-data-file"}
