"""A person's own prompts: kept as they were typed, and never in the way of a run."""

from __future__ import annotations

from zeroboard.contract.prompts import LONGEST, MOST, read_prompts, write_prompts
from zeroboard.paths import Paths


def test_lines_are_kept_once_each_and_bounded(paths: Paths) -> None:
    assert read_prompts(paths) == ()
    assert write_prompts(paths, " 你是谁？ \n\nWho?\nWho?\n" + "x" * 9000) == ("你是谁？", "Who?", "x" * LONGEST)
    assert read_prompts(paths)[:2] == ("你是谁？", "Who?")
    assert len(write_prompts(paths, "\n".join(map(str, range(100))))) == len(read_prompts(paths)) == MOST
    assert write_prompts(paths, "\n \n") == read_prompts(paths) == ()


def test_a_file_that_cannot_be_read_is_none(paths: Paths) -> None:
    paths.prompts.parent.mkdir(parents=True, exist_ok=True)
    paths.prompts.write_text('{"prompts": 3}')
    assert read_prompts(paths) == ()
