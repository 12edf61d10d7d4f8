"""The form: what a browser sends becomes a spec or problems by field; nothing is bent in silence."""

from __future__ import annotations

from typing import Any

import pytest

from zeroboard.contract.spec import RunSpec, fields
from zeroboard.services import prepare
from zeroboard.ui import form


def filled(**changes: Any) -> dict[str, Any]:
    return form.from_spec(prepare.default_spec()) | {key.replace("__", "."): value for key, value in changes.items()}


def test_every_field_of_the_spec_has_a_widget() -> None:
    keys = {w.key for w in form.widgets()}
    assert {f.key for f in fields() if f.kind not in ("mapping", "parts")} <= keys
    assert {"data.columns.instruction", "data.columns.output"} <= keys
    assert {f"data.more.{n}.{name}" for n in range(12) for name in ("path", "weight", "columns")} <= keys
    assert all(w.card is not None for w in form.widgets() if w.key != "name")


def test_what_the_form_shows_is_what_it_gives_back() -> None:
    columns = ["data.columns.output=Antwort", "data.columns.instruction=data.path"]
    mixed = ["data.weight=2", "data.more=[a.jsonl, {path: b.csv, weight: 0.5, columns: {output: 'x, y', input: z}}]"]
    staged = (["zero.stage=3", "zero.offload=optimizer"], ["zero.stage=2", "zero.offload=optimizer"])
    for sets in ([], columns, mixed, ["data.eval_path=held.jsonl"], *staged):
        spec = prepare.load_spec("demo", sets)
        assert form.check(form.from_spec(spec)).spec == spec


def test_a_line_of_the_form_that_names_no_file_is_none_and_a_bad_one_is_named() -> None:
    values = filled() | {"data.more.0.weight": 3.0, "data.more.4.path": " b.jsonl ", "data.more.4.weight": "0.5"}
    spec = form.check(values).spec
    assert spec is not None and [(one.path, one.weight) for one in spec.data.more] == [("b.jsonl", 0.5)]
    for weight in (0, -1, 1e30, "NaN", "x", None, True):
        checked = form.check(values | {"data.more.4.weight": weight})
        assert [p.field for p in checked.problems] == ["data.more"], weight
        assert checked.rest is not None and checked.rest.data.more == ()
    for columns in ("output", "output=", "answer=x", "output=x, output=y"):
        assert [p.field for p in form.check(values | {"data.more.4.columns": columns}).problems] == ["data.more"]


@pytest.mark.parametrize(
    ("stage", "what", "meant"),
    [("2", "auto", "optimizer"), ("3", "auto", "all"), ("3", "optimizer", "optimizer"), ("2", "all", "all")],
)
def test_the_offload_switch_means_what_the_stage_can_do(stage: str, what: str, meant: str) -> None:
    values = filled(zero__stage=stage, zero__offload=True) | {form.OFFLOAD_WHAT: what}
    assert form.to_mapping(values)["zero"]["offload"] == meant


def test_a_switch_that_is_off_offloads_nothing() -> None:
    assert form.to_mapping(filled(zero__offload=False) | {form.OFFLOAD_WHAT: "all"})["zero"]["offload"] == "none"


def test_every_bad_value_is_named_with_its_field_at_once() -> None:
    values = filled(train__micro_batch=0, train__learning_rate="quick", method__kind="magic", train__seed=-1)
    checked = form.check(values)
    assert checked.spec is None
    named = {p.field for p in checked.problems}
    assert {"train.micro_batch", "train.learning_rate", "method.kind", "train.seed"} <= named


def test_a_fraction_is_not_rounded_to_a_seed() -> None:
    checked = form.check(filled(train__seed=1.5))
    assert [p.field for p in checked.problems] == ["train.seed"]


def test_a_whole_float_is_the_number_that_was_typed() -> None:
    spec = form.check(filled(train__micro_batch=4.0)).spec
    assert spec is not None
    assert spec.train.micro_batch == 4


def test_an_emptied_number_is_refused_and_not_replaced_by_the_default() -> None:
    assert [p.field for p in form.check(filled(train__epochs=None)).problems] == ["train.epochs"]


def test_an_empty_optional_number_is_nothing_and_a_typed_one_is_a_number() -> None:
    spec = form.check(filled(train__max_steps=" 12 ", devices__count="")).spec
    assert spec is not None
    assert spec.train.max_steps == 12
    assert spec.devices.count is None


def test_the_stamp_changes_with_any_field() -> None:
    spec = prepare.default_spec()
    assert form.stamp(spec) == form.stamp(RunSpec.model_validate(spec.model_dump()))
    assert form.stamp(spec) != form.stamp(spec.model_copy(update={"name": "another"}))


def test_fields_stand_in_the_card_that_shows_them() -> None:
    assert form.card_of("devices.count") == form.card_of("zero.stage") == "zero"
    assert form.card_of("train.epochs") == "train"
    assert form.card_of("name") is None
    assert form.card_of(None) is None


def test_what_is_wrong_in_one_field_does_not_hide_what_is_wrong_in_another() -> None:
    checked = form.check(filled(train__micro_batch=0, data__path="/no/such.jsonl"))
    assert checked.spec is None and checked.rest is not None
    assert checked.rest.data.path == "/no/such.jsonl"
    assert checked.rest.train.micro_batch == prepare.default_spec().train.micro_batch


def test_what_a_browser_kept_comes_back_and_nothing_else_does() -> None:
    values = filled(train__epochs=2.5)
    assert form.kept({"values": values}) == values
    strange = {"values": {"train.epochs": {"$": 1}, "no.such": 1, "zero.stage": "3", "devices.gpus": [1]}}
    assert form.kept(strange) == {"zero.stage": "3"}
    for nothing in (None, [], {}, {"values": 3}, "x"):
        assert form.kept(nothing) == {}
