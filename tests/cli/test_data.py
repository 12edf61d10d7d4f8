"""`zeroboard data` judges a file and says which rows cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zeroboard.cli import main


def write(path: Path, rows: list[object]) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def test_rows_are_counted_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = {"instruction": "Which?", "input": "", "output": "This."}
    path = write(tmp_path / "some.jsonl", [good, {**good, "output": ""}, {**good, "output": "That."}])
    assert main(["data", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == "alpaca" and found["tokens"] is None
    assert found["rows"] == {"total": 3, "usable": 2, "refused": 1, "changed": 0}
    (problem,) = found["problems"]
    assert (problem["code"], problem["count"], problem["rows"]) == ("empty-output", 1, [2])
    assert problem["excerpt"].startswith('{"instruction": "Which?"')
    assert "2" in problem["message"] and "{" not in problem["message"]


def test_a_file_with_nothing_usable_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "none.jsonl", [{"instruction": "Which?", "input": "", "output": ""}])
    assert main(["data", str(path)]) == 1
    assert "empty-output" in capsys.readouterr().out


def test_a_missing_file_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", str(tmp_path / "nothing.jsonl"), "--json"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and "nothing.jsonl" in said.err
