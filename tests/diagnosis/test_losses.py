"""Losses and skipped steps of a run that goes on."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.diagnosis.run_of import resolved, spec, step
from zeroboard.diagnosis.losses import GOOD, NANS, STILL, Losses


def codes(steps: Iterable[tuple[float | None, float | None]], *sets: str, dtype: str = "bf16") -> list[list[str]]:
    """After each (loss, gradient norm) what is found."""
    losses = Losses(spec=spec(*sets), resolved=resolved(dtype=dtype, stage=spec(*sets).zero.stage))
    found = []
    for number, (loss, norm) in enumerate(steps, 1):
        losses.take(step(number, loss=loss, grad_norm=norm))
        found.append([f.says.removeprefix("finding.") for f in losses.findings()])
    return found


def test_losses_of_zero_are_found_after_three_and_cleared_after_three_good_ones() -> None:
    found = codes([(2.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0)])
    assert found == [[], [], [], ["loss-zero"], ["loss-zero"], ["loss-zero"], []]


def test_data_that_is_known_by_heart_may_have_a_loss_of_zero() -> None:
    assert codes([(0.03, 0.1)] + [(0.0, 0.01)] * 9)[-1] == []
    assert codes([(0.03, 0.1)] + [(0.0, None)] * 9)[-1] == ["loss-zero"]


def test_a_loss_that_is_no_number_is_found_once_it_stays_so() -> None:
    assert codes([(2.0, 1.0), (None, None), (2.0, 1.0), (None, None), (None, None)])[-1] == []
    found = codes([(None, None)] * NANS + [(2.0, 1.0)] * GOOD)
    assert found[NANS - 1] == ["loss-nan"] and found[-2] == ["loss-nan"] and found[-1] == []


def test_gradients_of_exactly_zero_are_no_training() -> None:
    assert codes([(2.0, 0.0)] * STILL)[-1] == ["no-training-happened.still"]
    assert codes([(2.0, 0.0)] * (STILL - 1) + [(2.0, 0.1)])[-1] == []


def test_it_is_said_with_the_step_that_showed_it_and_stays_the_same_words() -> None:
    losses = Losses(spec=spec("train.precision=fp16"), resolved=resolved())
    for number in range(1, 9):
        losses.take(step(number, loss=0.0, grad_norm=1.0))
    (finding,) = losses.findings()
    assert (finding.code, finding.severity, finding.params["count"]) == ("loss-zero", "error", 3)
    assert finding.evidence is not None and finding.evidence.text.startswith("step 3: loss 0.0")
    assert finding.remedies[0].set == {"train.precision": "bf16"}


@pytest.mark.parametrize(("dtype", "sets", "expected"), [
    ("fp16", (), ["overflow-loop"]),
    ("fp16", ("train.max_grad_norm=0",), []),
    ("bf16", (), []),
    ("fp16", ("zero.stage=2",), []),
])  # fmt: skip
def test_steps_without_a_norm_are_skipped_ones_only_where_ddp_tells_one(
    dtype: str, sets: tuple[str, ...], expected: list[str]
) -> None:
    assert codes([(2.0, None)] * 20, *sets, dtype=dtype)[-1] == expected


def overflow(scale: float) -> str:
    return f"[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {2 * scale}, reducing to {scale}"


def sharded() -> Losses:
    return Losses(spec=spec("zero.stage=2"), resolved=resolved(dtype="fp16", stage="2"))


def test_deepspeed_says_in_the_log_which_steps_it_skipped() -> None:
    losses = sharded()
    for number in range(1, 31):
        losses.take(step(number, loss=2.0, grad_norm=1.0))
        losses.overhear([overflow(65536.0), overflow(65536.0).replace("Rank 0", "Rank 1"), "a word"])
        assert [f.code for f in losses.findings()] == (["overflow-loop"] if number >= 20 else [])
    (finding,) = losses.findings()
    assert finding.evidence is not None and "OVERFLOW" in finding.evidence.text
    losses.take(step(31, loss=2.0, grad_norm=1.0))
    losses.overhear([])
    assert losses.findings() == []


def test_a_search_for_the_loss_scale_is_no_loop_but_a_scale_that_is_used_up_is() -> None:
    losses = sharded()
    for number in range(1, 100):
        losses.take(step(number, loss=2.0, grad_norm=1.0))
        losses.overhear([overflow(65536.0)] if number % 4 == 0 else [])
        assert losses.findings() == []
    losses.overhear([overflow(1.0)])
    assert [f.code for f in losses.findings()] == ["overflow-loop"]
