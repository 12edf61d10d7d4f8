"""Who may import whom, held by running things: the layers, the start of the dashboard, the exceptions of the linter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("torch", "transformers", "deepspeed", "accelerate", "peft")

IMPORT_ALL = """
import importlib, json, pkgutil, sys
names = []
for room in sys.argv[1:]:
    package = importlib.import_module(room)
    names.append(room)
    if hasattr(package, "__path__"):
        for module in pkgutil.walk_packages(package.__path__, room + "."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
                names.append(module.name)
print(json.dumps({"names": names, "loaded": sorted(sys.modules)}))
"""


def imported(*rooms: str) -> tuple[list[str], set[str]]:
    """Import every module of the rooms in a fresh process: (their names, everything that is loaded then)."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *rooms], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    return said["names"], set(said["loaded"])


def test_the_whole_dashboard_is_imported_without_torch() -> None:
    names, loaded = imported("zeroboard.ui", "zeroboard.cli", "zeroboard.services", "zeroboard.runs", "zeroboard.chat")
    assert len(names) > 30
    assert "gradio" in loaded
    assert loaded.isdisjoint(HEAVY)
    assert not {name for name in loaded if name.startswith("zeroboard.engine")}


def test_the_command_line_waits_for_no_gradio() -> None:
    names, loaded = imported("zeroboard.cli")
    assert "zeroboard.cli.ui" in names
    assert loaded.isdisjoint({"gradio", "fastapi", "zeroboard.ui"})


def test_the_engine_knows_no_faces() -> None:
    _, loaded = imported("zeroboard.engine")
    assert "torch" in loaded
    faces = ("ui", "cli", "services", "chat", "runs", "monitor", "planning")
    assert loaded.isdisjoint({"gradio", *(f"zeroboard.{room}" for room in faces)})


def test_every_layer_and_contract_is_kept() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-logo",
            "--no-cache",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 broken" in done.stdout


@pytest.mark.parametrize("module", [*HEAVY, "gradio", "pynvml", "safetensors.torch", "pickle"])
def test_an_import_that_is_not_meant_is_refused_with_what_to_do_instead(module: str) -> None:
    rule = configuration()["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"][module]["msg"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--select",
            "TID251",
            "--stdin-filename",
            "zeroboard/planning/x.py",
            "-",
        ],
        input=f"import {module}\n",
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert rule in done.stdout


def test_every_exception_of_the_linter_and_of_the_warnings_has_its_reason() -> None:
    wanting = []
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    for line in section(lines, "[tool.ruff.lint.per-file-ignores]"):
        if "=" in line and "#" not in line:
            wanting.append(line)
    warnings = configuration()["tool"]["pytest"]["ini_options"]["filterwarnings"]
    assert warnings[0] == "error"
    for rule in warnings[1:]:
        at = next(n for n, line in enumerate(lines) if rule in line.replace('\\"', '"'))
        if not lines[at - 1].lstrip().startswith("#"):
            wanting.append(rule)
    assert not wanting


def test_the_linter_is_silenced_nowhere_without_saying_which_rule_and_why() -> None:
    wanting = []
    for path in sources():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for mark in ("# noqa", "# type: ignore"):
                if mark in line and path != Path(__file__):
                    rest = line.split(mark, 1)[1]
                    named = rest.startswith((": ", "["))
                    if not named:
                        wanting.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not wanting


def configuration() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def section(lines: list[str], head: str) -> list[str]:
    start = lines.index(head) + 1
    end = next((n for n in range(start, len(lines)) if lines[n].startswith("[")), len(lines))
    return lines[start:end]


def sources() -> list[Path]:
    return [path for room in ("zeroboard", "tests") for path in sorted((ROOT / room).rglob("*.py"))]


def test_the_environment_of_these_tests_reaches_no_hub() -> None:
    assert os.environ.get("HF_HUB_OFFLINE") == "1"
