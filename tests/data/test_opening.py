"""What the files of a data set are, before their rows are judged."""

from __future__ import annotations

import json
from pathlib import Path

from tests.data.rows_of import alpaca, chat, lines
from zeroboard.data.opening import LOOK_AHEAD, FileFault, open_data
from zeroboard.data.rows import Judged


def test_the_format_is_looked_for_in_the_first_records(tmp_path: Path) -> None:
    found = open_data(lines(tmp_path / "a", *[{"x": 1}] * (LOOK_AHEAD - 1), chat(("user", "q")))).files[0]
    assert (found.kind, found.fault, found.names.pairs) == ("messages", None, {})
    found = open_data(lines(tmp_path / "b", *[{"x": 1}] * LOOK_AHEAD, alpaca())).files[0]
    assert found.kind == "unknown" and found.fault is not None and found.fault.params == {"keys": "x"}
    (item,) = found.rows(10)
    assert isinstance(item, FileFault) and item.row == 10 + LOOK_AHEAD + 1


def test_columns_are_mapped_only_where_the_known_names_make_no_row(tmp_path: Path) -> None:
    cases = [
        ({"instruction": "q", "input": "", "回答": "a"}, "alpaca", {"回答": "output"}),
        ({"instruction": "q", "output": "a", "answer": "b"}, "alpaca", {}),
        ({"question": "q", "choice": "a"}, "unknown", {}),
        ({"content": "a page"}, "text", {"content": "text"}),
        ({"better": "a", "worse": "b"}, "preference", {"better": "chosen", "worse": "rejected"}),
    ]  # fmt: skip
    for row, kind, mapped in cases:
        found = open_data(lines(tmp_path / "d", row)).files[0]
        assert (found.kind, found.names.pairs) == (kind, mapped), row


def test_rows_are_numbered_from_where_the_file_starts(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.write_text(json.dumps([alpaca("1"), alpaca("2")])[:-1] + ", {")
    *rows, broken = open_data(path).files[0].rows(100)
    assert [row.row for row in rows if isinstance(row, Judged)] == [101, 102]
    assert isinstance(broken, FileFault) and (broken.row, broken.fault.params["row"]) == (103, 103)
