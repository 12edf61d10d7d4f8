"""Lines of JSON, and one that would fill the memory."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tests.data.rows_of import alpaca, codes, lines
from zeroboard.data import lines as module
from zeroboard.data.judge import judge
from zeroboard.data.lines import read_lines


def test_a_line_that_would_fill_the_memory_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_ROW", 100)
    text = b"\n".join([b'{"a": 1}', b'{"a": "' + b"x" * 5000 + b'"}', b"", b'{"a": 2}', b'{"a": "' + b"y" * 200])
    found = list(read_lines(io.BytesIO(text)))
    assert [(r.row, r.broken) for r in found] == [(1, None), (2, "oversized-row"), (3, None), (4, "oversized-row")]
    assert len(found[1].value) == 100


def test_a_line_longer_than_models_read_is_told_and_used(tmp_path: Path) -> None:
    report = judge(path := lines(tmp_path / "d", alpaca("short"), alpaca("long " * 300_000)))
    assert report.usable == 2 and codes(report) == {"oversized-row": (2,)}
    assert len(report.problems[0].excerpt or "") < 300 and path.stat().st_size > 10**6


def test_a_repeated_key_is_told_with_its_name_and_the_row_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.write_text(json.dumps(alpaca()) + '\n{"instruction": "q", "output": "old", "output": "new"}\n')
    report = judge(path)
    assert report.usable == 2 and codes(report) == {"duplicate-key": (2,)}
    assert report.problems[0].params["details"] == "output"
