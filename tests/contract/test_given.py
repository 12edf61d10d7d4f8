"""What was given, as it may stand in a sentence."""

from __future__ import annotations

import datetime

import pytest

from zeroboard.contract.given import json_kind, shown


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, None),
        (True, True),
        (0.5, 0.5),
        (float("nan"), "nan"),
        (7, 7),
        (2**60, "1.15e+18"),
        (10**400, "> 1e300"),
        ("x" * 100, "x" * 60),
        ([1], "list"),
        ({"a": 1}, "object"),
    ],
)
def test_a_value_is_shown_short_and_never_as_a_structure(given: object, words: object) -> None:
    assert shown(given) == words


def test_a_text_is_quoted_where_it_is_asked() -> None:
    assert shown("2", quoted=True) == '"2"' and shown(2, quoted=True) == 2


def test_kinds_are_those_of_json_and_else_the_type() -> None:
    assert [json_kind(given) for given in (None, False, 1.5, "", (), {})] == [
        "null", "boolean", "number", "text", "list", "object",
    ]  # fmt: skip
    assert json_kind(datetime.date(2026, 1, 1)) == "date"
