"""`zeroboard fetch`: from a stand-in of the hub, with a token that only the environment holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes.hub import COMMIT, Model, hub
from zeroboard.cli import main
from zeroboard.services import fetching

NAME = "hub:someone/gated"


def test_it_comes_with_the_token_of_the_environment_and_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in fetching.OFFLINE:
        monkeypatch.delenv(name, raising=False)
    with hub("hf_right") as known:
        known.models["someone/gated"] = Model({"config.json": b"{}", "model.safetensors": b"weights"}, gated=True)
        monkeypatch.setenv("HF_ENDPOINT", known.endpoint)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        assert main(["fetch", NAME, "--cache", str(tmp_path)]) == 1
        assert "access token" in capsys.readouterr().err
        monkeypatch.setenv("HF_TOKEN", "hf_right")
        assert main(["fetch", NAME, "--cache", str(tmp_path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["commit"] == COMMIT and Path(said["path"], "model.safetensors").read_bytes() == b"weights"
    assert [file["name"] for file in said["files"]] == ["config.json", "model.safetensors"]
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b"hf_right" in file.read_bytes()]


def test_a_path_is_no_name_of_a_hub(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", "someone/gated", "--cache", str(tmp_path)]) == 1
    assert "hub:OWNER/NAME" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_data_set_comes_by_itself_where_it_is_judged_and_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (*fetching.OFFLINE, "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    row = b'{"instruction": "Hi", "output": "Hello"}\n'
    with hub("hf_right") as known:
        known.datasets["someone/rows"] = Model({"en/train.jsonl": row, "en/test.jsonl": row * 3, "odd.jsonl": row * 2})
        monkeypatch.setenv("HF_ENDPOINT", known.endpoint)
        assert main(["data", "hub:someone/rows", "--cache", str(tmp_path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["rows"]["usable"] == 1
        assert main(["fetch", "--data", "hub:someone/rows/*.jsonl", "--cache", str(tmp_path), "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["dataset"] == "hub:someone/rows/*.jsonl" and Path(said["path"]).read_bytes() == row * 2
        assert main(["data", "hub:someone/none", "--cache", str(tmp_path)]) == 1
    assert "shows no data set someone/none" in capsys.readouterr().err
