"""`zeroboard data` judges a file and says which rows cannot be used."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
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


def test_a_person_sees_rows_sentence_and_quotation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    write(
        folder / "a.jsonl", [{"instruction": "Which?", "output": ""}, {"instruction": "\x1b[31mThis?", "output": "b"}]
    )
    write(folder / "b.jsonl", [{"instruction": "That?", "output": None}])
    assert main(["data", str(folder), "--lang", "zh-CN"]) == 0
    said = capsys.readouterr()
    assert "a.jsonl  alpaca  1–2" in said.out and "b.jsonl  alpaca  3–3" in said.out
    assert '    {"instruction": "Which?", "output": ""}' in said.out and "回答为空" in said.out
    assert "\x1b" not in said.out and said.err == ""
    assert main(["data", str(folder), "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    whole = {"format": "alpaca", "changed": 0, "part": 0}
    assert files == [
        {"name": "a.jsonl", "first": 1, "rows": 2, "usable": 1, "refused": 1, **whole},
        {"name": "b.jsonl", "first": 3, "rows": 1, "usable": 0, "refused": 1, **whole},
    ]


def test_further_files_and_one_that_is_measured_are_judged_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"instruction": str(n), "output": "a"} for n in range(6)]
    first, second, measured = (
        write(tmp_path / name, part)
        for name, part in (("a.jsonl", rows[:3]), ("b.jsonl", rows[2:4]), ("c.jsonl", rows[3:]))
    )
    words = ["data", str(first), "--more", str(second), "0.5", "--eval", str(measured)]
    assert main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [(file["name"], file["first"], file["usable"], file["part"]) for file in said["files"]] == [
        ("a.jsonl", 1, 3, 0),
        ("b.jsonl", 4, 2, 1),
    ]
    assert said["rows"]["usable"] == 5 and [(p["code"], p["rows"]) for p in said["problems"]] == [
        ("duplicate-row", [4])
    ]
    held = said["evaluation"]
    assert held["rows"]["total"] == 3 and held["overlap"] == 1
    assert [(p["code"], p["rows"]) for p in held["problems"]] == [("evaluation-overlap", [1])]
    assert main(words) == 0 and "c.jsonl" in capsys.readouterr().out
    assert main(["data", str(first), "--eval", str(first)]) == 1, "nothing is left to measure"
    for weight in ("0", "-1", "nan", "1e30", "x"):
        assert main(["data", str(first), "--more", str(second), weight]) == 2


def test_a_file_that_is_named_twice_is_refused_as_a_plan_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = (write(tmp_path / name, [{"instruction": name, "output": "a"}]) for name in ("a.jsonl", "b.jsonl"))
    (tmp_path / "link.jsonl").symlink_to(other)
    for again in (one, tmp_path / "link.jsonl"):
        assert main(["data", str(one), "--more", str(other), "1", "--more", str(again), "0.5", "--json"]) == 1
        (told,) = json.loads(capsys.readouterr().out)["problems"]
        assert (told["code"], told["field"]) == ("value-range", "data.more") and str(again) in told["message"]


def test_what_takes_long_shows_its_progress_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "some.jsonl", [{"instruction": str(n), "output": "a"} for n in range(9)])
    monkeypatch.setattr("zeroboard.cli.data.PATIENCE", -1.0)
    assert main(["data", str(path), "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["rows"]["total"] == 9 and f"reading {path}" in said.err


def test_an_interrupted_judging_ends_with_130(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    line = json.dumps({"instruction": "Which?", "output": "This one. " * 20}) + "\n"
    path.write_text(line * 300_000)
    process = subprocess.Popen(
        [sys.executable, "-m", "zeroboard", "data", str(path), "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    opened = Path(f"/proc/{process.pid}/fd")
    deadline = time.monotonic() + 60
    while not any(link.exists() and link.resolve() == path for link in opened.iterdir()):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "") and "Traceback" not in err


def test_columns_are_read_as_they_are_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "d.csv"
    path.write_text("Anliegen,Entgegnung\nHi,Hallo\nTag,Guten Tag\n")
    assert main(["data", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["columns"] == ["Anliegen", "Entgegnung"]
    said = ["--column", "instruction=Anliegen", "--column", "output=Entgegnung"]
    assert main(["data", str(path), "--json", *said]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == "alpaca" and found["rows"]["usable"] == 2
    assert [p["code"] for p in found["problems"]] == ["columns-mapped"]
    assert main(["data", str(path), "--column", "answer=Entgegnung"]) == 2
    assert main(["data", str(path), *said, "--column", "output=Anliegen"]) == 2, "which of the two is meant?"
