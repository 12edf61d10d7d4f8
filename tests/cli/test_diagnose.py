"""`zeroboard diagnose`: its JSON, its exit codes, its words for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.diagnosis.told import ENDED, STARTED, raised, step
from tests.fakes import make_run, popen
from zeroboard.cli import main
from zeroboard.cli.face import Face
from zeroboard.cli.follow import follow, outcome
from zeroboard.paths import Paths
from zeroboard.services import runs
from zeroboard.settings import Settings

OOM = raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", rank=2)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(STARTED + step() + OOM)
    return path


def call(capsys: pytest.CaptureFixture[str], tmp_path: Path, *argv: str) -> tuple[int, str, str]:
    code = main(["diagnose", *argv, "--cache", str(tmp_path / "cache")])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_json_has_its_whole_shape_and_the_root_first(log: Path, tmp_path: Path, capsys: Any) -> None:
    code, out, err = call(capsys, tmp_path, str(log), "--json")
    said = json.loads(out)
    assert (code, err, said["root"]) == (0, "", "cuda-oom")
    (finding,) = said["findings"]
    assert {"code", "severity", "rank", "evidence", "message", "remedies"} <= set(finding)
    assert (finding["rank"], finding["evidence"]["file"], finding["evidence"]["line"]) == (2, "train.log", 6)
    assert all(set(remedy) == {"text", "set"} and remedy["text"] for remedy in finding["remedies"])
    assert finding["remedies"][1]["set"] == {"train.activation_checkpointing": True}


def test_people_read_the_cause_the_line_and_what_to_set(log: Path, tmp_path: Path, capsys: Any) -> None:
    code, out, _ = call(capsys, tmp_path, str(log))
    assert code == 0 and "rank 2" in out and "train.log:6: torch.OutOfMemoryError" in out
    assert (
        "--set train.activation_checkpointing=true" in out and "--set zero.stage=2 --set zero.offload=optimizer" in out
    )
    assert "显存不足" in call(capsys, tmp_path, str(log), "--lang", "zh-CN")[1]


def test_a_clean_log_is_said_to_be_one(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "ok.log").write_text(STARTED + step() * 3 + ENDED)
    code, out, _ = call(capsys, tmp_path, str(tmp_path / "ok.log"))
    assert (code, out.strip()) == (0, "Nothing is wrong, as far as this log says.")


def test_an_empty_log_is_answered_with_exit_1(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "empty.log").touch()
    code, out, err = call(capsys, tmp_path, str(tmp_path / "empty.log"), "--json")
    assert (code, json.loads(out)) == (1, {"root": None, "findings": []}) and "empty" in err


def test_no_log_is_exit_2_with_one_line(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "gone.log", tmp_path / "folder"):
        code, out, err = call(capsys, tmp_path, str(place), "--json")
        assert (code, out, len(err.splitlines())) == (2, "", 1)


def test_a_training_that_fails_ends_with_its_root_cause_and_the_first_remedy(tmp_path: Path, capsys: Any) -> None:
    paths = Paths(tmp_path / "cache")
    run = make_run(paths, "--fail-at", "2")
    runs.start(paths, run.id, popen=popen)
    face = Face(settings=Settings(cache=paths.root), language="en", json=False)
    snapshot = follow(face, run.id)
    run.rank_log(1).write_text("on\n" + raised("ValueError: row 7 is bad"))
    assert outcome(face, snapshot) == 1
    out = capsys.readouterr().out
    assert "rank 1: This exception was the first to end a process: ValueError: row 7 is bad" in out
    assert "logs/rank_1.log:5: ValueError: row 7 is bad" in out and out.count("→") == 1
    assert main(["show", run.id, "--cache", str(paths.root)]) == 0
    assert "Findings" in capsys.readouterr().out
