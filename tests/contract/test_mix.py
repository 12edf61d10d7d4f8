"""Several files as one: what a weight means, exactly."""

from __future__ import annotations

import pytest

from zeroboard.contract.mix import PLAIN, DataPart, Mix, seen


@pytest.mark.parametrize(
    ("rows", "weight", "samples"),
    [
        (10, 1.0, 10),
        (10, 2.0, 20),
        (10, 0.5, 5),
        (10, 2.5, 25),
        (3, 0.5, 2),
        (3, 0.01, 1),
        (0, 5.0, 0),
        (1000, 0.3, 300),
    ],
)
def test_a_weight_is_how_often_the_rows_of_a_file_are_seen(rows: int, weight: float, samples: int) -> None:
    assert seen(rows, weight) == samples


def test_a_file_is_told_by_the_field_that_names_it_or_its_folder() -> None:
    mix = Mix(more=(DataPart(path="/d/b"), DataPart(path="/d/c")), held_out=DataPart(path="/d/e.jsonl"))
    assert [mix.field_of(path) for path in ("/d/a.jsonl", "/d/bb", "/d/b/1.jsonl", "/d/c", "/d/e.jsonl")] == [
        "data.path", "data.path", "data.more", "data.more", "data.eval_path",
    ]  # fmt: skip


def test_only_a_weight_that_is_no_whole_number_leaves_a_choice_to_the_seed() -> None:
    assert not PLAIN.drawn and not Mix(weight=3.0).drawn
    assert Mix(weight=0.5).drawn and Mix(more=(DataPart(path="b", weight=1.5),)).drawn


def test_weights_come_and_go_and_the_files_stay() -> None:
    held_out = DataPart(path="c")
    mix = Mix(weight=2.0, more=(DataPart(path="b", weight=0.5, columns={"output": "x"}),), held_out=held_out)
    assert mix.weights == (2.0, 0.5) and mix.paths == ("b", "c") and not mix.plain
    assert mix.unweighed.weights == (1.0, 1.0) and mix.unweighed.as_weighed(mix) == mix
    assert PLAIN.plain and PLAIN.weights == (1.0,)
