"""Arrays and objects in a row are cut into their values, wherever a block ends."""

from __future__ import annotations

import io
import json
import random

import pytest

from zeroboard.data import values
from zeroboard.data.records import Record
from zeroboard.data.values import first_value, read_values

ROWS = [
    {"a": 'x "quoted" \\ {[}]', "b": [1, {"c": ["d", None]}], "é": "中"},
    [], [[["deep"]]], "a text, with \"marks\"", 5, -1.5e3, True, None, {}, {"long": "y" * 300},
]  # fmt: skip


@pytest.mark.parametrize("block", [1, 2, 7, 64, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2])
def test_values_come_out_whole_wherever_the_blocks_end(
    block: int, indent: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "BLOCK", block)
    rows = random.Random(block).sample(ROWS, len(ROWS))
    text = json.dumps(rows, indent=indent, ensure_ascii=False).encode()
    assert [record.value for record in read_values(io.BytesIO(b" " + text + b"\n"), array=True)] == rows
    behind = "\n".join(json.dumps(row, indent=indent) for row in rows).encode()
    assert [record.value for record in read_values(io.BytesIO(behind), array=False)] == rows


def last(text: bytes, *, array: bool = True) -> Record:
    *_, record = read_values(io.BytesIO(text), array=array)
    return record


@pytest.mark.parametrize(
    ("text", "row", "line"),
    [
        (b'[{"a": 1},\n]', 2, 2),
        (b'[{"a": 1}\n\n', 2, 3),
        (b'[{"a": 1},\n{"b": ', 2, 2),
        (b'[{"a": 1} {"b": 2}]', 2, 1),
        (b'[{"a": 1}] more', 2, 1),
        (b'[\n{"a": 1},\n{"b": "open}]', 2, 3),
        (b"[", 1, 1),
        (b"[{'a': 1}]", 1, 1),
        (b'[{"a" 1}]', 1, 1),
    ],
)
def test_a_break_is_told_with_its_place(text: bytes, row: int, line: int) -> None:
    record = last(text)
    assert record.fault is not None and record.fault.says == "data.not-json.array"
    assert (record.row, record.fault.params) == (row, {"row": row, "line": line})


def test_a_value_too_large_for_the_memory_ends_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "BLOCK", 64)
    monkeypatch.setattr(values, "LARGEST_ROW", 1000)
    record = last(b'[{"a": "' + b"x" * 5000 + b'"}]')
    assert record.fault is not None and record.row == 1


def test_broken_letters_in_an_array_cost_their_record() -> None:
    found = list(read_values(io.BytesIO(b'[{"a": "\xff"}, {"a": 1}]'), array=True))
    assert [(record.row, record.broken) for record in found] == [(1, "broken-character"), (2, None)]


def test_the_first_value_of_a_text() -> None:
    assert first_value(b' {"a": 1}\n{"b"') == {"a": 1}
    assert first_value(b"{'a': 1}") is None and first_value(b"{") is None and first_value(b" ") is None
