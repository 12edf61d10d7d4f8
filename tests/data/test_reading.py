"""What a file is, by its content; a broken part costs no more than it must."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.data.rows_of import alpaca, codes, turns
from zeroboard.data.conversations import conversations
from zeroboard.data.judge import judge
from zeroboard.errors import Refused


def test_a_byte_order_mark_is_removed_and_told(tmp_path: Path) -> None:
    path = tmp_path / "d"
    for text in (json.dumps([alpaca()]), json.dumps(alpaca())):
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
        report = judge(path)
        assert report.usable == 1 and codes(report) == {"bom-removed": ()}
        assert report.problems[0].severity == "info"


def test_shape_is_recognised_by_content_whatever_the_name(tmp_path: Path) -> None:
    rows = [alpaca(), alpaca("Ünïcode 中文")]
    forms = {
        "array.jsonl": json.dumps(rows, indent=2),
        "lines.json": "\n\n".join(json.dumps(row) for row in rows) + "\r\n",
        "objects.txt": "\n".join(json.dumps(row, indent=1) for row in rows),
    }
    for name, text in forms.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        report = judge(tmp_path / name)
        assert (report.format, report.total, report.usable, report.problems) == ("alpaca", 2, 2, ()), name


def test_a_broken_line_costs_itself_alone(tmp_path: Path) -> None:
    good = json.dumps(alpaca())
    path = tmp_path / "d"
    deep = '{"output":' + "[" * 6000 + "]" * 6000 + "}"
    path.write_text("\n".join(["// a comment", good, '{"instruction": "q"', deep, good]))
    report = judge(path)
    assert (report.total, report.usable) == (5, 2)
    assert codes(report) == {"not-json": (1, 3, 4)}
    assert [c.row for c in conversations(path)] == [2, 5]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.write_text(json.dumps(alpaca("a\u2028b\u0085c"), ensure_ascii=False) + "\n", encoding="utf-8")
    assert turns(path) == [[("user", "A question?"), ("assistant", "a\u2028b\u0085c")]]


@pytest.mark.parametrize(
    "text", ['[{"instruction": "q", "output": "a"},]', '[{"instruction": "q", "output": "a"}', "[", "[1] 2"]
)
def test_an_array_that_breaks_is_refused_whole(tmp_path: Path, text: str) -> None:
    path = tmp_path / "d"
    path.write_text(text)
    report = judge(path)
    assert report.usable == 0 and codes(report).keys() <= {"not-json", "unknown-format"}
    with pytest.raises(Refused) as refused:
        list(conversations(path))
    assert refused.value.problems[0].code == "data-refused"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty-file"),
        (b"\xef\xbb\xbf", "empty-file"),
        (b" \n\n ", "empty-file"),
        (b"[]", "empty-file"),
        (b"PK\x03\x04rest", "not-a-data-file"),
        (b"\x1f\x8b\x08rest", "not-a-data-file"),
        (b"%PDF-1.7", "not-a-data-file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "not-a-data-file"),
        (b"<!doctype html><html></html>", "not-a-data-file"),
        (b"\x80\x04\x95", "not-a-data-file"),
        (b"\x00\x01\x02\x03 not text", "not-a-data-file"),
        (b"\x01\x02\x03\x04\x05\x06", "not-a-data-file"),
        (b"\x1f\x8b\x08" + bytes(40), "not-a-data-file"),
        (b"PAR1 and nothing behind", "not-a-data-file"),
        (b'\xff\xfe[\x00"\x00', "not-json"),
        (b"instruction,output\n", "empty-file"),
        (b'"What is it?","This, and that."\n"And this?",That.\n', "unknown-format"),
        (b'"see the other folder"', "unknown-format"),
        (b'["a", "b"]', "unknown-format"),
        (b'{"label": 1, "sentence": "a"}', "unknown-format"),
        (b"{'instruction': 'q', 'output': 'a'}", "not-json"),
    ],
)
def test_a_file_that_is_no_data_is_refused_by_name(tmp_path: Path, content: bytes, code: str) -> None:
    path = tmp_path / "d"
    path.write_bytes(content)
    report = judge(path)
    assert report.usable == 0
    assert [p.code for p in report.problems if p.severity == "error"] == [code]
    codes(report)
    with pytest.raises(Refused):
        list(conversations(path))


def test_progress_reaches_one(tmp_path: Path) -> None:
    for form in ("lines", "array"):
        path = tmp_path / form
        rows = [alpaca()] * 2500
        path.write_text("\n".join(map(json.dumps, rows)) if form == "lines" else json.dumps(rows))
        seen: list[float] = []
        judge(path, on_progress=seen.append)
        assert len(seen) >= 3 and seen == sorted(seen) and seen[-1] == 1.0, form
