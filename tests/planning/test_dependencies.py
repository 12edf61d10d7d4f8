"""Versions: floors, ceilings, pairs that fail, and that `pyproject.toml` installs nothing outside of them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.planning.facts import spec
from zeroboard.planning.dependencies import BOUNDS, DEEPSPEED, dependencies, within

GOOD = {
    "torch": "2.13.0+cpu", "transformers": "5.24.0", "peft": "0.21.2", "accelerate": "1.15.0", "safetensors": "0.8.0",
    "gradio": "6.26.0", "deepspeed": "0.19.8",
}  # fmt: skip


def told(packages: dict[str, str], *sets: str) -> list[tuple[str, str, str]]:
    found = dependencies(packages, spec(*sets))
    return [(p.severity, p.message_key.removeprefix("problem."), str(p.params["package"])) for p in found]


def test_what_works_is_let_pass_and_nobody_having_looked_says_nothing() -> None:
    assert told(GOOD, "zero.stage=3") == [] and told({}) == []


@pytest.mark.parametrize(
    ("package", "version", "severity", "why"),
    [
        ("torch", "2.9.1+cu128", "error", "unsafe"),
        ("transformers", "5.22.0", "error", "unsafe"),
        ("peft", "0.18.0", "error", "old"),
        ("gradio", "6.31.0", "warning", "page"),
        ("gradio", "6.20.0", "warning", "page"),
    ],
)
def test_a_version_outside_its_bounds_is_named(package: str, version: str, severity: str, why: str) -> None:
    assert told({**GOOD, package: version}) == [(severity, f"dependency-version.{why}", package)]


def test_deepspeed_is_needed_by_a_stage_and_by_nothing_else() -> None:
    without = {name: version for name, version in GOOD.items() if name != "deepspeed"}
    assert told(without) == []
    assert told(without, "zero.stage=2") == [("error", "dependency-missing", "deepspeed")]
    assert told({**GOOD, "deepspeed": "0.18.4"}, "zero.stage=2") == [
        ("error", "dependency-version.unsafe", "deepspeed")
    ]


def test_versions_that_crash_together_are_refused_and_each_alone_is_not() -> None:
    bad, sets = {**GOOD, "deepspeed": "0.19.2"}, ["zero.stage=3", "train.activation_checkpointing=true"]
    assert told(bad, *sets) == [("error", "dependency-version.crashes", "deepspeed")]
    assert told(bad, "zero.stage=2", sets[1]) == [] and told(GOOD, *sets) == []


def test_the_package_that_overwrites_nvml_is_told() -> None:
    assert told({**GOOD, "pynvml": "12.0.0"}) == [("warning", "dependency-version.pynvml", "pynvml")]


def test_local_parts_and_previews_count_as_their_version_and_odd_ones_are_let_pass() -> None:
    assert within("2.10.0+cu130", ">=2.10") and within("2.10.0rc1", ">=2.10") and within("built by me", ">=2.10")
    assert not within("2.9.9", ">=2.10")


def test_what_pyproject_installs_lies_within_the_bounds() -> None:
    root = Path(__file__).resolve().parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {r.name: r.specifier for r in map(Requirement, project["dependencies"])}
    for bound in (*BOUNDS, DEEPSPEED):
        assert {str(part) for part in SpecifierSet(bound.versions)} == {str(part) for part in asked[bound.package]}
