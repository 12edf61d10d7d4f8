"""What stands in the way of data, before anything starts: several files, and one that is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.planning.facts import host, model, spec
from zeroboard.contract.mix import DataPart, Mix
from zeroboard.contract.plan import Plan
from zeroboard.contract.problems import Problem
from zeroboard.data.judge import judge
from zeroboard.paths import Paths
from zeroboard.planning.planner import make_plan


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """a and b differ in all rows; c holds one of a's; all is a once more; pairs cannot be trained on."""
    rows = {"a": "123", "b": "456", "c": "37", "all": "1", "pairs": ""}
    found = {name: tmp_path / f"{name}.jsonl" for name in rows}
    for name, numbers in rows.items():
        made = [{"instruction": number, "output": "yes"} for number in numbers]
        found[name].write_text("".join(json.dumps(row) + "\n" for row in made))
    found["pairs"].write_text('{"prompt": "q", "chosen": "a", "rejected": "b"}\n')
    found["link"] = tmp_path / "link.jsonl"
    found["link"].symlink_to(found["a"])
    return found


def planned(tmp_path: Path, first: Path, *sets: str) -> Plan:
    asked = spec(f"data.path={first}", *sets)
    mix = asked.data.mix
    data = judge(first, mix=mix)
    return make_plan(asked, host=host(), paths=Paths(tmp_path), model=model(tmp_path / "m"), data=data, tokens=None)


def about_data(plan: Plan) -> list[Problem]:
    return [problem for problem in plan.problems if (problem.field or "").startswith("data.")]


def test_a_mix_in_order_becomes_part_of_the_plan(tmp_path: Path, files: dict[str, Path]) -> None:
    more = f"data.more=[{{path: {files['b']}, weight: 0.5}}]"
    plan = planned(tmp_path, files["a"], more, "data.weight=2", f"data.eval_path={files['c']}")
    assert plan.resolved is not None and [p.severity for p in about_data(plan)] == ["warning"]
    part, held_out = DataPart(path=str(files["b"]), weight=0.5), DataPart(path=str(files["c"]))
    assert plan.resolved.mix == Mix(weight=2.0, more=(part,), held_out=held_out)
    assert plan.resolved.tokens_key != planned(tmp_path, files["a"], more).resolved.tokens_key  # type: ignore[union-attr]


def test_a_file_that_is_named_twice_is_refused_also_by_a_link(tmp_path: Path, files: dict[str, Path]) -> None:
    for again in (files["a"], files["link"], f"{files['a'].parent}/./a.jsonl"):
        plan = planned(tmp_path, files["a"], f"data.more=[{files['b']}, '{again}']")
        found = [p for p in about_data(plan) if p.severity == "error"]
        assert [(p.code, p.field, p.says) for p in found] == [("value-range", "data.more", "problem.value-range.twice")]
        assert found[0].params["second"] == str(again)


@pytest.mark.parametrize("name", ["a", "link", "b"])
def test_what_is_trained_on_is_not_measured_as_well(tmp_path: Path, files: dict[str, Path], name: str) -> None:
    plan = planned(tmp_path, files["a"], f"data.more=[{files['b']}]", f"data.eval_path={files[name]}")
    assert "problem.value-range.measured" in {p.says for p in about_data(plan)} and not plan.ok


def test_rows_that_are_in_both_are_told_and_refused_where_they_are_all(tmp_path: Path, files: dict[str, Path]) -> None:
    some = about_data(planned(tmp_path, files["a"], f"data.eval_path={files['c']}"))
    assert [(p.severity, p.says, p.params) for p in some] == [
        ("warning", "problem.data-refused.overlap", {"count": 1, "rows": "1"})
    ]
    every = planned(tmp_path, files["a"], f"data.eval_path={files['all']}")
    assert [p.says for p in about_data(every)] == ["problem.data-refused.all-trained"] and not every.ok


def test_a_file_that_cannot_be_used_is_named_before_its_reason(tmp_path: Path, files: dict[str, Path]) -> None:
    for first, second, field in (("a", "pairs", "data.more"), ("pairs", "a", "data.path")):
        found = about_data(planned(tmp_path, files[first], f"data.more=[{files[second]}]"))
        assert [(p.field, p.says) for p in found] == [
            (field, "problem.data-refused.file"),
            (field, "data.unknown-format.preference"),
        ]
        assert found[0].params == {"file": "pairs.jsonl"}
    held = about_data(planned(tmp_path, files["a"], f"data.eval_path={files['pairs']}"))
    assert [(p.field, p.says) for p in held] == [
        ("data.eval_path", "problem.data-refused.measured"),
        ("data.eval_path", "data.unknown-format.preference"),
    ]


def test_a_share_beside_an_evaluation_file_has_no_effect_and_that_is_told(
    tmp_path: Path, files: dict[str, Path]
) -> None:
    both = planned(tmp_path, files["a"], f"data.eval_path={files['b']}", "data.evaluation=0.3")
    assert [(p.code, p.field) for p in about_data(both)] == [("ignored-choice", "data.evaluation")]
    alone = planned(tmp_path, files["a"], f"data.eval_path={files['b']}", "train.evaluate_every=5")
    assert alone.ok and not about_data(alone)
    assert both.resolved is not None and alone.resolved is not None
    assert both.resolved.tokens_key == alone.resolved.tokens_key


def test_no_place_of_the_system_is_read_wherever_it_is_named(tmp_path: Path, files: dict[str, Path]) -> None:
    for name, value in (("more", "[/proc/self/environ]"), ("eval_path", "/dev/zero")):
        plan = planned(tmp_path, files["a"], f"data.{name}={value}")
        assert ("unsafe-path", f"data.{name}") in {(p.code, p.field) for p in plan.problems}
