"""`zeroboard prepare` on a cache where the model already is: it says where, and starts nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zeroboard.catalogue import MODELS
from zeroboard.cli import main
from zeroboard.paths import Paths


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    folder = MODELS[0].folder(Paths(tmp_path))
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}", encoding="utf-8")
    return folder


def test_it_says_where_the_model_is(tmp_path: Path, ready: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prepare", "--cache", str(tmp_path)]) == 0
    assert str(ready) in capsys.readouterr().out


def test_json_holds_the_folder_by_name(tmp_path: Path, ready: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prepare", "--cache", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"models": {MODELS[0].name: str(ready)}}
