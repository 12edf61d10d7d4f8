"""Values in a line, for people."""

from __future__ import annotations

import pytest

from zeroboard.contract.spec import DataSpec
from zeroboard.services.words import setting


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("path", "rows.jsonl", "rows.jsonl"),
        ("eval_path", "", "–"),
        ("more", [], "–"),
        ("more", ["b.csv", {"path": "c.csv", "weight": 0.5}], "b.csv × 1, c.csv × 0.5"),
        ("more", [{"path": "b.csv", "columns": {"output": "x"}}], "b.csv × 1 (output = x)"),
        ("columns", {"output": "x", "input": "y"}, "output = x, input = y"),
        ("columns", {}, "–"),
        ("weight", 2.5, "2.5"),
    ],
)
def test_every_field_of_the_data_is_readable_in_a_line(field: str, value: object, words: str) -> None:
    spec = DataSpec.model_validate({"path": "a", field: value}).model_dump(mode="json")
    assert setting(spec[field]) == words
    assert (setting(True), setting(None), setting(["a", "b"])) == ("true", "–", "a, b")
