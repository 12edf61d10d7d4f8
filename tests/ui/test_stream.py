"""A long piece of work as a generator."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from zeroboard.ui.stream import Came, stream


def test_what_is_told_comes_first_and_the_result_last() -> None:
    def work(tell: Callable[[str], None]) -> int:
        tell("half")
        tell("done")
        return 7

    assert list(stream(work)) == ["half", "done", Came(7)]


def test_an_exception_of_the_work_is_raised_where_it_is_waited_for() -> None:
    def work(tell: Callable[[str], None]) -> int:
        tell("begun")
        raise LookupError("gone")

    lines = stream(work)
    assert next(lines) == "begun"
    with pytest.raises(LookupError, match="gone"):
        next(lines)
