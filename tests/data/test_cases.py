"""Files that went wrong for somebody, and real data sets; the folders with them are not part of the project."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from zeroboard.data.conversations import conversations
from zeroboard.data.judge import judge
from zeroboard.services import words

SHARED = Path(__file__).resolve().parents[3] / "shared"
CASES = SHARED / "cases" / "data"
NAMES = sorted(folder.name for folder in CASES.glob("*"))
REAL = {
    "alpaca_en_demo.json": ("alpaca", 999),
    "alpaca_zh_demo.json": ("alpaca", 1000),
    "identity.json": ("alpaca", 91),
    "v1_sft_demo.jsonl": ("messages", 500),
    "glaive_toolcall_en_demo.json": ("sharegpt", 300),
    "reason_tool_use_demo_50.jsonl": ("messages", 50),
    "dpo_en_demo.json": ("preference", 300),
    "c4_demo.jsonl": ("text", 300),
}

here = pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not on this machine")


def runner() -> ModuleType:
    """The runner of the cases, for its language of what has to match."""
    spec = importlib.util.spec_from_file_location("run_cases", SHARED / "cases" / "run_cases.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("run_cases", module)
    spec.loader.exec_module(module)
    return module


@here
@pytest.mark.parametrize("name", NAMES)
def test_a_known_case_is_judged_rightly(name: str, tmp_path: Path) -> None:
    case: dict[str, Any] = json.loads((CASES / name / "expected.json").read_text())
    command = case["command"]
    if len(command) != 2:
        pytest.skip("asks for a model, which is the engine's business")
    if case["exit"] == 2:
        pytest.skip("is about the usage of the command line")
    if (CASES / name / "make.py").is_file():
        subprocess.run([sys.executable, CASES / name / "make.py", tmp_path], check=True)
    path = Path(command[1].replace("{case}", str(CASES / name)).replace("{made}", str(tmp_path)))
    report = judge(path)
    exits = case["exit"] if isinstance(case["exit"], list) else [case["exit"]]
    assert int(not report.usable) in exits
    assert runner().mismatch(case["expect"], words.data(report)) is None
    if report.trainable:
        assert sum(1 for _ in conversations(path)) == report.usable


@here
@pytest.mark.parametrize("name", sorted(REAL))
def test_a_real_data_set_is_recognised_and_none_of_its_rows_is_lost(name: str) -> None:
    path = SHARED / "data" / name
    report = judge(path)
    assert (report.format, report.total) == REAL[name]
    assert (report.usable, report.refused) == (report.total, 0)
    if report.trainable:
        assert sum(1 for _ in conversations(path)) == report.total
    else:
        assert report.format == "preference"
