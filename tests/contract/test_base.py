"""The two bases: strict for what a person writes, tolerant for what a newer version wrote."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from zeroboard.contract.base import Part, Record


class _Part(Part):
    number: float
    """A number."""


class _Record(Record):
    number: float
    """A number."""


def test_a_part_refuses_an_unknown_key_and_a_record_lets_it_pass() -> None:
    with pytest.raises(ValidationError):
        _Part.model_validate({"number": 1, "other": 2})
    assert _Record.model_validate({"number": 1, "other": 2}) == _Record(number=1)


@pytest.mark.parametrize("kind", [_Part, _Record])
def test_both_are_frozen_know_no_nan_and_take_their_docstrings_as_descriptions(kind: type[Part] | type[Record]) -> None:
    value = kind.model_validate({"number": 1})
    with pytest.raises(ValidationError):
        value.number = 2  # type: ignore[union-attr]
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValidationError):
            kind.model_validate({"number": bad})
    assert kind.model_fields["number"].description == "A number."


class _Counted(Record):
    count: int
    """A count."""
    inner: dict[str, tuple[int, ...]] | None = None
    """More of them."""


@pytest.mark.parametrize("count", [0, -1, 10**40 - 1, "10", True])
def test_whole_numbers_of_any_sane_size_are_read(count: object) -> None:
    assert _Counted.model_validate({"count": count, "inner": {"a": [1]}}).count == int(count)  # type: ignore[call-overload]


@pytest.mark.parametrize("count", [10**40, -(10**40), 10**400])
def test_a_whole_number_that_nothing_can_reckon_with_is_damage(count: int) -> None:
    for value in ({"count": count}, {"count": 1, "inner": {"a": [count]}}):
        with pytest.raises(ValidationError):
            _Counted.model_validate(value)
