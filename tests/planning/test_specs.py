"""From what a person wrote to a spec: everything wrong named at once, everything right kept."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from zeroboard.contract.problems import Problem
from zeroboard.contract.spec import fields
from zeroboard.errors import NotFound, Refused, UsageError
from zeroboard.messages import LANGUAGES, has, say
from zeroboard.planning.specs import commented_example, parse_spec, read_spec, read_value, spec_yaml, with_sets

GOOD = {"model": {"path": "m"}, "data": {"path": "d"}}


def problems(value: dict[str, Any]) -> dict[str | None, Problem]:
    """Field → problem; every sentence must be there in every language, filled to the last place."""
    spec, found = parse_spec(value)
    assert spec is None and found
    assert len({p.field for p in found}) == len(found)
    for problem in found:
        for language in LANGUAGES:
            for key in (problem.message_key, problem.remedy_key):
                assert has(key, language), key
                assert "{" not in say(key, language, **problem.params), key
    return {problem.field: problem for problem in found}


def test_defaults_fill_what_is_left_out() -> None:
    spec, found = parse_spec(GOOD)
    assert found == () and spec is not None
    assert (spec.train.accumulation, spec.zero.stage, spec.method.kind) == (4, "none", "lora")


def test_a_number_is_good_for_a_stage() -> None:
    spec, _ = parse_spec({**GOOD, "zero": {"stage": 2}})
    assert spec is not None and spec.zero.stage == "2"


def test_everything_wrong_is_named_at_once_with_its_field() -> None:
    found = problems(
        {
            "model": "m",
            "data": {"path": "", "lenght": 3},
            "train": {
                "learning_rate": float("inf"),
                "epochs": "many",
                "micro_batch": 10**30,
                "seed": True,
                "accumulation": 2.5,
                "keep_checkpoints": 0,
                "save_every": [1],
            },
            "zero": {"stage": 5, "offlaod": "all", "overlap_comm": "perhaps"},
            "devices": {"gpus": "GPU-1", "count": 0},
            "name": 5,
            "methd": {},
            "rank": 8,
            "zzzzzz": 1,
        }
    )
    assert {field: problem.code for field, problem in found.items()} == {
        "model": "wrong-type",
        "data.path": "value-range",
        "data.lenght": "unknown-key",
        "train.learning_rate": "value-range",
        "train.epochs": "wrong-type",
        "train.micro_batch": "value-range",
        "train.seed": "wrong-type",
        "train.accumulation": "wrong-type",
        "train.keep_checkpoints": "value-range",
        "train.save_every": "wrong-type",
        "zero.stage": "value-range",
        "zero.offlaod": "unknown-key",
        "zero.overlap_comm": "wrong-type",
        "devices.gpus": "wrong-type",
        "devices.count": "value-range",
        "name": "wrong-type",
        "methd": "unknown-key",
        "rank": "unknown-key",
        "zzzzzz": "unknown-key",
    }
    assert found["zero.offlaod"].params["nearest"] == "zero.offload"
    assert found["data.lenght"].params["nearest"] == "data.max_length"
    assert found["methd"].params["nearest"] == "method"
    assert found["rank"].params["nearest"] == "method.rank"
    assert found["train.micro_batch"].params["bounds"] == "≥ 1, ≤ 4096"
    assert found["zero.stage"].params["choices"] == "none, 1, 2, 3"


def test_no_model_and_no_data_are_missing() -> None:
    empty: list[dict[str, Any]] = [{}, {"model": {}, "data": {}}]
    for value in empty:
        found = problems(value)
        assert {p.code for p in found.values()} == {"model-missing", "data-missing"}
        assert set(found) == {"model.path", "data.path"}


@pytest.mark.parametrize(
    "train",
    [
        {"precision": "bf16,fp16"},
        {"precision": "fp16 + bf16"},
        {"precision": ["bf16", "fp16"]},
        {"bf16": True, "fp16": True},
    ],
)
def test_both_precisions_are_a_conflict(train: dict[str, Any]) -> None:
    found = problems({**GOOD, "train": train})
    assert found["train.precision"].code == "precision-conflict"


@pytest.mark.parametrize("value", [10**5000, -(10**400), 1e400, float("nan"), 10**30], ids=lambda _: "n")
def test_absurd_numbers_are_problems_and_no_overflow(value: Any) -> None:
    for field in ("seed", "max_steps", "learning_rate", "epochs"):
        found = problems({**GOOD, "train": {field: value}})
        assert found[f"train.{field}"].code in ("value-range", "wrong-type")


def test_the_spec_reads_back_from_its_own_yaml(tmp_path: Path) -> None:
    text = "zero.stage=3 zero.offload=all train.learning_rate=1e-5 name=名前 devices.gpus=[GPU-1] train.save_every=7"
    spec, _ = parse_spec(with_sets(GOOD, text.split(" ")))
    assert spec is not None
    path = tmp_path / "spec.yaml"
    path.write_text(spec_yaml(spec), encoding="utf-8")
    assert read_spec(path) == (spec, ())
    assert spec_yaml(spec) == spec_yaml(spec)


def test_json_is_read_as_well_as_yaml(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text('\ufeff{\n\t"model": {"path": "m"},\n\t"data": {"path": "d"}\n}', encoding="utf-8")
    spec, found = read_spec(path)
    assert spec is not None and found == ()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"model: [", "not-json"),
        (b"model:\n\tpath: x", "not-json"),
        (b"\xff\xfe", "not-json"),
        (b"[" * 100_000, "not-json"),
        (b"x" * (1 << 21), "not-json"),
        (b"- model", "wrong-type"),
        (b"", "wrong-type"),
        (b"model:\n  path: a\n  path: b\n", "duplicate-key"),
        (b'{"model": {"path": "a"}, "model": {}}', "duplicate-key"),
    ],
)
def test_a_file_that_is_no_spec_is_refused_by_name(tmp_path: Path, content: bytes, code: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(content)
    spec, found = read_spec(path)
    assert spec is None and [p.code for p in found] == [code]
    assert has(found[0].message_key) and has(found[0].remedy_key)
    with pytest.raises(Refused):
        read_value(path)


def test_yaml_that_multiplies_itself_is_answered_quickly(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20))
    path.write_text(f"a0: &a0 [x]\n{levels}\nmodel: {{path: *a19}}\n")
    spec, found = read_spec(path)
    assert spec is None and any(p.field == "model.path" and p.code == "wrong-type" for p in found)


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_spec(tmp_path / "none.yaml")


def test_sets_are_laid_over_a_copy() -> None:
    value: dict[str, Any] = {"model": {"path": "m"}}
    result = with_sets(
        value, ["zero.stage=3", "model.path=123", "train.save_every=", "zero.overlap_comm=true", "x.y=[1]"]
    )
    assert result == {
        "model": {"path": "123"},
        "zero": {"stage": 3, "overlap_comm": True},
        "train": {"save_every": None},
        "x": {"y": [1]},
    }
    assert value == {"model": {"path": "m"}}


@pytest.mark.parametrize("text", ["zero.stage", "=3", "zero.=3", ".stage=1", "zero.stage=[", "model.path.x=1"])
def test_a_set_that_makes_no_sense_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        with_sets(GOOD, ["model.path=m", text])
    assert raised.value.params["given"] == text and has(raised.value.says)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_example_is_a_good_spec_and_explains_every_field(tmp_path: Path, language: Any) -> None:
    text = commented_example(language)
    path = tmp_path / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    spec, found = read_spec(path)
    assert spec is not None and found == ()
    assert text.count("# ") >= len(fields())
    assert "field." not in text
    given = read_value(path)
    for facts in fields():
        head, _, name = facts.key.rpartition(".")
        assert name in (given[head] if head else given), facts.key


def test_aliases_that_stand_for_more_than_a_memory_cost_nothing(tmp_path: Path) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{key}: &{key} [{', '.join([f'*{before}'] * 10)}]" for before, key in itertools.pairwise("abcdefghijkl")]
    for place in ("train: {precision: *l}", "name: *l", "devices: {gpus: *l}", "zero: *l", "model: {path: *l}"):
        file = tmp_path / "spec.yaml"
        file.write_text("\n".join([*lines, place]))
        spec, problems = read_spec(file)
        assert spec is None and place.split(":")[0] in {(p.field or "").split(".")[0] for p in problems}


@pytest.mark.parametrize("value", ["2024-13-45", "9" * 5000, "[" * 3000, "{a: 1, a: 2}", "[1, 2", "!!python/x 1", "*a"])
def test_a_value_that_yaml_cannot_read_is_wrong_usage(value: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_sets({}, [f"train.epochs={value}"])
    assert caught.value.says == "error.bad-set"


def test_a_text_that_is_no_unicode_is_told_as_such() -> None:
    _, problems = parse_spec({"model": {"path": "model\udcff"}, "data": {"path": "demo-en"}})
    assert [(p.code, p.field, p.says) for p in problems] == [
        ("value-range", "model.path", "problem.value-range.encoding")
    ]


def test_columns_are_texts_under_the_names_that_are_read() -> None:
    good = {"model": {"path": "m"}, "data": {"path": "d"}}
    spec, _ = parse_spec(with_sets(good, ["data.columns.output=12", "data.columns.system="]))
    assert spec is not None and spec.data.chosen == {"output": "12"}
    again, _ = parse_spec(yaml.safe_load(spec_yaml(spec)))
    assert again == spec
    for bad, code in (({"answer": "x"}, "value-range"), ({"output": 3}, "wrong-type"), ("output", "wrong-type")):
        none, problems = parse_spec({**good, "data": {"path": "d", "columns": bad}})
        assert none is None
        assert [(p.code, p.field) for p in problems] == [(code, "data.columns")]


def test_further_files_are_paths_or_path_and_weight_and_a_bad_one_is_named_by_its_number() -> None:
    good: dict[str, Any] = {"model": {"path": "m"}, "data": {"path": "d"}}
    spec, _ = parse_spec(with_sets(good, ["data.more=[b.jsonl, {path: c.csv, weight: 0.5}]", "data.weight=2"]))
    assert spec is not None and spec.data.mix.weights == (2.0, 1.0, 0.5)
    assert parse_spec(yaml.safe_load(spec_yaml(spec)))[0] == spec
    wrong: list[tuple[object, str, str | None]] = [
        ([{"path": "x", "weight": bad}], "value-range", "data.more[1].weight") for bad in (0, -1, 1e30, float("nan"))
    ]
    wrong += [
        (["a", {"path": "x", "weight": "much"}], "wrong-type", "data.more[2].weight"),
        ([{"path": "x", "weight": True}], "wrong-type", "data.more[1].weight"),
        ([{"path": "x", "wight": 1}], "unknown-key", "data.more[1].wight"),
        ([{"path": ""}], "value-range", "data.more[1].path"),
        ([{"weight": 1}], "data-missing", "data.more[1]"),
        ([{"path": "x", "columns": {"answer": "y"}}], "value-range", "data.more[1].columns"),
        ([{"path": "x", "columns": "output"}], "wrong-type", "data.more[1].columns"),
        ([3], "wrong-type", "data.more[1]"),
        ("b.jsonl", "wrong-type", "data.more"),
        ({"path": "b.jsonl"}, "wrong-type", "data.more"),
        (["x"] * 13, "value-range", "data.more"),
    ]
    for more, code, key in wrong:
        none, problems = parse_spec({**good, "data": {"path": "d", "more": more}})
        assert none is None
        assert [(p.code, p.field, p.params["key"]) for p in problems] == [(code, "data.more", key)], more
        assert all(has(p.message_key) and has(p.remedy_key) for p in problems)
        assert "{" not in say(problems[0].message_key, "en", **problems[0].params)
