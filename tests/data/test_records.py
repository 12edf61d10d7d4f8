"""Records are values: they cannot be changed on their way."""

from __future__ import annotations

import pytest

from zeroboard.data.records import LARGEST_ROW, OVERSIZED, Record


def test_a_record_cannot_be_changed_and_what_is_told_comes_before_what_is_refused() -> None:
    record = Record(1, {"a": 1})
    with pytest.raises(AttributeError):
        record.row = 2  # type: ignore[misc]
    assert (record.broken, record.repeated, record.fault) == (None, None, None) and OVERSIZED < LARGEST_ROW
