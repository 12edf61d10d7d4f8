"""`zeroboard train` on real files: everything that can be trained on is learned from, and what cannot says why."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="there is no ../shared/data beside this copy of the project")

FILES = [
    pytest.param("identity.json", 256),
    *(
        pytest.param(name, length, marks=pytest.mark.long)
        for name, length in (
            ("alpaca_en_demo.json", 256),
            ("alpaca_zh_demo.json", 256),
            ("v1_sft_demo.jsonl", 256),
            ("glaive_toolcall_en_demo.json", 256),
            ("reason_tool_use_demo_50.jsonl", 2048),  # its system turns alone are longer than 256 tokens
            ("c4_demo.jsonl", 256),
        )
    ),
]
"""Every one that can be trained on, with a maximum length; `make test` trains on one, `make long` on all."""
STEPS = 24


def zeroboard(*words: str, cache: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "zeroboard", *words, "--cache", str(cache)]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)


def spec(tmp_path: Path, model: Path, name: str, length: int = 256) -> str:
    """A spec file: the tiny model on one rank, all parameters, with four rows of its own that are measured."""
    measured = tmp_path / "measured.jsonl"
    rows = [{"instruction": f"What is {n}?", "output": f"It is {n}."} for n in range(4)]
    measured.write_text("".join(json.dumps(row) + "\n" for row in rows))
    wish = {
        "model": {"path": str(model)},
        "data": {"path": str(DATA / name), "max_length": length, "eval_path": str(measured)},
        "method": {"kind": "full"},
        "train": {"learning_rate": 3e-3, "max_steps": STEPS, "micro_batch": 4, "accumulation": 1},
        "devices": {"count": 1},
    }
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(wish))
    return str(file)


@pytest.mark.train
@pytest.mark.parametrize(("name", "length"), FILES)
def test_a_training_on_each_file_reaches_a_falling_loss(
    tmp_path: Path, tiny_model_folder: Path, name: str, length: int
) -> None:
    ran = zeroboard("train", spec(tmp_path, tiny_model_folder, name, length), cache=tmp_path)
    assert ran.returncode == 0, ran.stderr[-2000:]
    shown = json.loads(zeroboard("show", "last", "--json", cache=tmp_path).stdout)
    losses = [step["loss"] for step in shown["metrics"]]
    quarter = STEPS // 4
    assert shown["state"] == "finished" and len(losses) == STEPS
    assert fmean(losses[-quarter:]) < 0.9 * fmean(losses[:quarter]), losses
    measured = [one["loss"] for one in shown["evaluations"]]
    assert measured and [one["rows"] for one in shown["evaluations"]] == [4] * len(measured)


def test_preference_pairs_are_refused_with_a_sentence_and_nothing_is_started(
    tmp_path: Path, tiny_model_folder: Path
) -> None:
    ran = zeroboard("train", spec(tmp_path, tiny_model_folder, "dpo_en_demo.json"), cache=tmp_path / "cache")
    assert ran.returncode == 1 and "preference pairs (chosen, rejected)" in ran.stderr
    assert not list((tmp_path / "cache" / "runs").glob("*"))
