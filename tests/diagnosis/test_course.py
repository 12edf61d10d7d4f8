"""The course of a training: what is a bad sign, and what only looks like one."""

from __future__ import annotations

import math
from datetime import datetime

import pytest

from tests.diagnosis.told import ENDED, STARTED, line, step
from zeroboard.diagnosis.course import WORDS, Course, when
from zeroboard.diagnosis.reading import Line


def follow(text: str) -> Course:
    course = Course()
    for order, content in enumerate(text.split("\n")):
        course.hear(content)
        if any(word in content for word in WORDS):
            course.feed(line(content, number=order + 1), order)
    return course


def overflow(scale: int, rank: int = 0) -> str:
    return f"[deepspeed] OVERFLOW! Rank {rank} Skipping step. Attempted loss scale: {2 * scale}, reducing to {scale}\n"


def test_losses_that_become_no_numbers_and_stay_so_are_kept_with_their_first_line() -> None:
    course = follow(step(2.0) + step("nan", "nan") * 4)
    assert course.nan is not None and (course.nan[0].number, course.nan[1]) == (2, 4)
    assert follow(step(2.0) + step("nan", "nan") + step(1.9)).nan is None


def test_losses_of_zero_are_a_sign_unless_the_data_is_known_by_heart() -> None:
    course = follow(step(0.0, "nan") * 5)
    assert course.zero is not None and course.zero[1] == 5
    assert follow("".join(step(loss) for loss in (2.0, 0.3, 0.01, 0.0, 0.0, 0.0, 0.0))).zero is None
    assert follow(step(2.0) + step(0.0) + step(1.9)).zero is None


@pytest.mark.parametrize(
    "text",
    [
        "{'eval_loss': '0.0', 'eval_runtime': '1.2', 'epoch': '1'}\n" * 5,
        "{'loss': '0.0'}\n" * 5,
        "the loss: 0.0 of my stomach\n" * 5,
        '{"text": "step 3 weight loss program"}\n' * 5,
        ENDED.replace("1.2", "0.0"),
    ],
)
def test_zeros_that_are_no_training_losses_are_none(text: str) -> None:
    course = follow(text)
    assert (course.zero, course.nan, course.steps) == (None, None, 0)


def test_other_loops_print_their_losses_too() -> None:
    assert follow("step 10 | lm loss: 2.1E+00 | grad norm: 0.5\n" * 4).steps == 4
    assert follow("epoch 1 iteration 10/20, loss = nan\n" * 4).nan is not None


def test_a_search_for_the_loss_scale_is_no_loop_and_a_loop_is() -> None:
    assert not follow("".join(overflow(2**n) for n in range(16, 10, -1)) + step() * 90).overflow_loop
    assert follow("".join(overflow(2**n) for n in range(33, 8, -1))).overflow_loop
    assert follow("Total optimization steps = 12\n" + "".join(overflow(2**n) for n in range(16, 8, -1))).overflow_loop
    assert follow(overflow(1)).overflow_loop


def test_a_skipped_step_is_counted_once_although_every_rank_tells_it() -> None:
    assert follow("".join(overflow(1024, rank) for rank in range(8))).overflows == 1


def test_the_trainer_s_bar_counts_steps_and_others_do_not() -> None:
    course = Course()
    for text in ("  3%|▍  | 2/60 [00:05<02:25,  2.50s/it]", "  5%|▍  | 3/60 [00:05<02:25,  2.50s/it]"):
        course.feed(Line("x", 1, None, text, True), 0)
    course.feed(Line("x", 1, None, "Loading checkpoint shards:  50%|█  | 1/2 [00:02<00:02,  2.52s/it]", True), 0)
    assert (course.steps, course.at, course.of) == (2, 3, 60)


def test_begin_and_end_are_seen() -> None:
    course = follow(STARTED + ENDED)
    assert course.launched is not None and course.ended is not None and course.ended_order == 1


@pytest.mark.parametrize(
    "text",
    [
        "2025-10-27 20:18:57,221 - INFO",
        "[2025-10-27 20:18:57,221] [INFO] x",
        "[INFO|trainer.py:2519] 2025-10-27 20:18:57,221 >> x",
        "10/27/2025 20:18:57 - INFO - x",
        "2025-10-27T20:18:57 x",
    ],
)
def test_times_are_read_in_the_forms_of_loggers(text: str) -> None:
    time = when(text)
    assert time is not None and math.floor(time) == datetime(2025, 10, 27, 20, 18, 57).timestamp()


def test_a_time_without_a_year_takes_that_of_the_lines_before() -> None:
    course = follow("2024-06-12 12:00:00 x\nE0612 12:11:53.219000 34615 torch/x.py:803] y\n")
    assert course.stamp() == datetime(2024, 6, 12, 12, 11, 53).timestamp() + 0.219
    assert when("E9999 99:99:99.1 no") is None and when("E1399 12:00:00 no") is None and when("plain") is None
