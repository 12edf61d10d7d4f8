"""The tree of exceptions: exit codes, and sentences by key."""

from __future__ import annotations

import pytest

from zeroboard.contract.problems import Problem
from zeroboard.errors import (
    BrokenFile,
    Busy,
    EngineFailed,
    NotFound,
    Refused,
    UnsafePath,
    UsageError,
    ZeroBoardError,
)
from zeroboard.messages import say


@pytest.mark.parametrize(
    ("kind", "code"),
    [(UsageError, 2), (NotFound, 2), (UnsafePath, 2), (Busy, 1), (BrokenFile, 1), (EngineFailed, 1)],
)
def test_wrong_usage_exits_2_and_everything_else_1(kind: type[ZeroBoardError], code: int) -> None:
    error = kind("error.run-not-found", run="x")
    assert error.exit_code == code and isinstance(error, ZeroBoardError)
    assert say(error.says, **error.params) == "There is no run x."
    assert "error.run-not-found" in str(error) and "x" in str(error)


def test_a_refusal_carries_all_its_problems() -> None:
    problems = [Problem(code="a"), Problem(code="b")]
    error = Refused(problems)
    assert error.problems == tuple(problems) and error.exit_code == 1
    assert "2" in say(error.says, **error.params)
