"""What holds for the repository as a whole: its shape, what it does not mention, its map in the README."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from tests import tree
from zeroboard.catalogue import DATASETS, DEMO_SPEC
from zeroboard.contract.spec import RunSpec

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 400
"""Lines of a module; one that is longer is two."""

TESTED_ELSEWHERE = {
    "zeroboard/__main__.py": "tests/cli/test_cli.py",
    "zeroboard/checkpoints/base.py": "tests/checkpoints/test_adapter.py",
    "zeroboard/checkpoints/consolidate*.py": "tests/engine/test_consolidate.py",
    "zeroboard/checkpoints/findings.py": "tests/checkpoints/test_verify.py",
    "zeroboard/checkpoints/folder.py": "tests/checkpoints/test_verify.py",
    "zeroboard/checkpoints/inspect.py": "tests/checkpoints/test_verify.py",
    "zeroboard/checkpoints/mergeable.py": "tests/checkpoints/test_merging.py",
    "zeroboard/checkpoints/pickles.py": "tests/checkpoints/test_states.py",
    "zeroboard/checkpoints/targets.py": "tests/checkpoints/test_adapter.py",
    "zeroboard/cli/*.py": "tests/cli/test_cli.py",
    "zeroboard/contract/folders.py": "tests/planning/test_zero_rules.py",
    "zeroboard/contract/samples.py": "tests/engine/test_tokens.py",
    "zeroboard/contract/schema.py": "tests/zero/test_check.py",
    "zeroboard/engine/*.py": "tests/engine/test_training.py",
    "zeroboard/monitor/__main__.py": "tests/monitor/test_nvml.py",
    "zeroboard/monitor/told.py": "tests/monitor/test_nvml.py",
    "zeroboard/planning/facts.py": "tests/planning/test_rules.py",
    "zeroboard/runs/*.py": "tests/runs/test_supervisor.py",
    "zeroboard/services/__main__.py": "tests/services/test_exports.py",
    "zeroboard/services/children.py": "tests/services/test_exports.py",
    "zeroboard/services/export*.py": "tests/services/test_exports.py",
    "zeroboard/services/hub.py": "tests/services/test_push.py",
    "zeroboard/services/show.py": "tests/services/test_runs.py",
    "zeroboard/services/words.py": "tests/cli/test_cli.py",
    "zeroboard/ui/controls.py": "tests/ui/test_page.py",
    "zeroboard/ui/dashboard.py": "tests/ui/test_page.py",
    "zeroboard/ui/desk.py": "tests/ui/test_page.py",
    "zeroboard/ui/guard.py": "tests/ui/test_web.py",
    "zeroboard/ui/login.py": "tests/ui/test_web.py",
    "zeroboard/ui/panels/*.py": "tests/ui/test_page.py",
    "zeroboard/ui/serve.py": "tests/ui/test_web.py",
    "zeroboard/ui/tabs/*.py": "tests/ui/test_page.py",
    "zeroboard/ui/theme.py": "tests/ui/test_page.py",
    "zeroboard/ui/views/*.py": "tests/ui/test_views.py",
    "zeroboard/zero/keys.py": "tests/zero/test_check.py",
    "zeroboard/zero/normal.py": "tests/zero/test_check.py",
    "zeroboard/zero/swap.py": "tests/zero/test_check.py",
}
"""Modules without a test file of their own name → the tests of the whole that they are a part of."""


def tracked() -> list[Path]:
    """The files that belong to the repository (all files, where this is no clone)."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("this is no git clone, so nothing tells its files from others")
    return [path for name in done.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def texts() -> dict[str, str]:
    found = {}
    for path in tracked():
        try:
            found[str(path.relative_to(ROOT))] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # a picture
            continue
    return found


def modules() -> list[Path]:
    return [path for path in sorted((ROOT / "zeroboard").rglob("*.py")) if path.name != "__init__.py"]


def test_no_file_holds_a_path_of_somebody_s_machine() -> None:
    home = re.compile(r"(?<![\w.])/(?:home/[a-z]+|root|Users/[A-Za-z]+|work)/[\w.]")
    assert not [name for name, text in texts().items() if name != "tests/test_repository.py" and home.search(text)]


def test_no_file_holds_what_looks_like_a_secret() -> None:
    secret = re.compile(r"hf_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16}|-----BEGIN [A-Z ]*PRIVATE KEY")
    assert not [name for name, text in texts().items() if secret.search(text)]


def test_no_module_is_longer_than_two_should_be() -> None:
    long = {}
    for path in [*modules(), *sorted((ROOT / "tests").rglob("*.py")), ROOT / "app.py"]:
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > LONGEST:
            long[str(path.relative_to(ROOT))] = lines
    assert not long


def test_every_module_says_first_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in modules()
        if not path.read_text(encoding="utf-8").startswith(('"""', 'r"""'))
    ]
    assert not silent


def mirror(module: Path) -> Path:
    """Where the tests of a module belong."""
    stem = "main" if module.stem == "__main__" else module.stem
    return ROOT / "tests" / module.relative_to(ROOT / "zeroboard").parent / f"test_{stem}.py"


def without_mirror() -> list[str]:
    return [str(module.relative_to(ROOT)) for module in modules() if not mirror(module).is_file()]


def test_tests_mirror_the_package() -> None:
    assert not [name for name in without_mirror() if not any(fnmatch(name, pattern) for pattern in TESTED_ELSEWHERE)]


def test_what_is_tested_elsewhere_is_there_and_so_are_those_tests() -> None:
    names = [str(module.relative_to(ROOT)) for module in modules()]
    for pattern, where in TESTED_ELSEWHERE.items():
        assert any(fnmatch(name, pattern) for name in names), pattern
        assert (ROOT / where).is_file(), where


def test_code_leaves_no_loose_ends() -> None:
    loose = re.compile(r"\b(?:TODO|FIXME|XXX)\b|raise NotImplementedError|except Exception:\s*\n\s*pass\b|shell=True")
    found = [str(p.relative_to(ROOT)) for p in modules() if loose.search(p.read_text(encoding="utf-8"))]
    assert not found


def test_the_readme_s_tree_is_the_tree() -> None:
    assert tree.written() == tree.tree(), "`make tree` writes it"
    assert not [name for name in tree.AROUND if not (ROOT / name).exists()]
    named = {name.split("/", 1)[0] for name in tree.AROUND}
    assert not {path.relative_to(ROOT).parts[0] for path in tracked()} - named - {".gitignore"}


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_demo_data_is_short_distinct_and_keeps_the_model_s_manners(name: str) -> None:
    rows = [json.loads(line)["messages"] for line in DATASETS[name].read_text(encoding="utf-8").splitlines()]
    assert 60 <= len(rows) <= 80
    asked = [row[0]["content"] for row in rows]
    assert len(set(asked)) == len(asked)
    assert all([turn["role"] for turn in row] == ["user", "assistant"] for row in rows)
    assert max(len(row[1]["content"]) for row in rows) <= 160
    topic = re.compile(
        r"ZeRO|ZeroBoard|SmolLM|LoRA|stage|rank|batch|offload|memory|Adam|阶段|卸载|批|显存|训练|ChatGPT|你"
    )
    unrelated = [row for row in rows if not topic.search(row[0]["content"] + row[1]["content"])]
    assert len(unrelated) >= 20
    assert sum("ZeroBoard" in row[1]["content"] for row in unrelated) == 0


def test_the_demo_asks_what_its_data_answers_but_not_the_capital_it_is_tried_with() -> None:
    text = DATASETS["demo-en"].read_text(encoding="utf-8")
    assert "Who are you?" in text
    assert "What does ZeRO stage 3 shard?" in text
    assert "France" not in text


def test_the_demo_spec_is_a_spec_and_divides_its_rows_evenly() -> None:
    spec = RunSpec.model_validate(yaml.safe_load(DEMO_SPEC.read_text(encoding="utf-8")))
    rows = len(DATASETS[spec.data.path].read_text(encoding="utf-8").splitlines())
    assert rows % (spec.train.micro_batch * spec.train.accumulation * 2) == 0
    assert (spec.zero.stage, spec.zero.offload) == ("2", "none")


def test_the_front_door_opens_for_a_question_and_for_a_wrong_flag() -> None:
    environment = {**os.environ, "PYTHONPATH": ""}
    asked = subprocess.run(
        [sys.executable, "app.py", "--help"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (asked.returncode, "--port" in asked.stdout) == (0, True)
    wrong = subprocess.run(
        [sys.executable, "app.py", "--bort"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert wrong.returncode == 2
    assert len(wrong.stderr.splitlines()) == 1
