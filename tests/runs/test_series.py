"""The thinned curves: small whatever comes, with every spike, every gap and both ends in them."""

from __future__ import annotations

import math
import random
import time

import pytest

from zeroboard.contract.events import StepEvent
from zeroboard.runs.series import MOST, Curves, Series, Smoothing, Thinned


def told(number: int, loss: float | None, **rest: float | None) -> StepEvent:
    return StepEvent(
        seq=number, time=0.0, rank=0, step=number, epoch=0.0, loss=loss, learning_rate=1e-3, step_time=1.0, **rest
    )


def test_few_points_stay_as_they_are() -> None:
    thinned = Thinned()
    points = [(step, float(step % 7)) for step in range(1, MOST + 1)]
    for step, value in points:
        thinned.add(step, value)
    assert thinned.points() == tuple(points)


def test_many_points_keep_spikes_gaps_order_and_both_ends() -> None:
    thinned, noise = Thinned(), random.Random(1)
    for step in range(1, 200_001):
        value = noise.random()
        thinned.add(step, {123_457: 99.0, 77_777: -9.0, 150_001: math.nan, 42: None}.get(step, value))
    points = thinned.points()
    steps = [step for step, _ in points]
    assert MOST / 2 - 2 <= len(points) <= MOST + 2
    assert steps == sorted(set(steps)) and (steps[0], steps[-1]) == (1, 200_000)
    assert {(123_457, 99.0), (77_777, -9.0), (150_001, None), (42, None)} <= set(points)


def test_a_curve_that_is_all_gaps_from_some_step_on_stays_small() -> None:
    thinned = Thinned()
    for step in range(1, 50_001):
        thinned.add(step, float(step) if step < 1000 else None)
    points = thinned.points()
    assert len(points) <= MOST + 2 and points[-1] == (50_000, None)
    assert max(step for step, value in points if value is not None) == 999


def test_steps_that_are_made_again_replace_those_of_the_earlier_attempt() -> None:
    thinned = Thinned(most=20)
    for step in range(1, 101):
        thinned.add(step, 1.0)
    for step in range(51, 121):
        thinned.add(step, 2.0)
    steps = [step for step, _ in thinned.points()]
    assert steps == sorted(set(steps)) and steps[-1] == 120
    assert all((value == 1.0) == (step <= 50) for step, value in thinned.points())
    thinned.add(1, 3.0)
    assert thinned.points() == ((1, 3.0),)


def test_the_mean_is_over_every_point_free_of_bias_and_follows_slowly() -> None:
    smoothing = Smoothing()
    assert smoothing.add(1, 4.0, 100) == pytest.approx(4.0)
    assert smoothing.add(2, None, 100) is None
    assert smoothing.add(3, 4.0, 100) == pytest.approx(4.0)
    long = Smoothing()
    late = [long.add(step, 2.0 + (step % 2) * 2 - 1, 20_000) for step in range(1, 20_001)][-100:]
    assert all(value == pytest.approx(2.0, abs=0.01) for value in late)


def test_what_is_not_measured_has_no_curve_and_what_stops_being_measured_has_gaps() -> None:
    curves = Curves()
    curves.step(told(1, 2.0), 3)
    assert curves.series(None).grad_norm == () and curves.series(None).loss == ((1, 2.0),)
    curves.step(told(2, None, grad_norm=1.5), 3)
    curves.step(told(3, 1.0), 3)
    series = curves.series(None)
    assert series.grad_norm == ((2, 1.5), (3, None)) and series.loss == ((1, 2.0), (2, None), (3, 1.0))
    assert series.smoothed[1] == (2, None) and curves.series(None) is series


def test_the_utilisation_is_the_throughput_by_a_factor() -> None:
    curves = Curves()
    curves.step(told(1, 2.0, tokens_per_s=500.0), 3)
    assert curves.series(None).mfu == () and curves.series(1e-3).mfu == ((1, pytest.approx(0.5)),)


def test_200_000_steps_cost_what_400_cost() -> None:
    few, many = Curves(), Curves()
    for step in range(1, 401):
        few.step(told(step, 1.0 / step, tokens_per_s=5.0), 400)
    event = told(1, 1.0, tokens_per_s=5.0)
    for step in range(1, 30_001):
        many.step(event.model_copy(update={"step": step, "loss": 1.0 / step}), 30_000)
    for name in Series.__dataclass_fields__:
        assert len(getattr(many.series(None), name)) <= MOST + 2
    assert len(many.series(None).loss) > MOST / 2 - 2 and len(few.series(None).loss) > MOST / 2 - 2

    def tick(curves: Curves, at: int) -> float:
        began = time.process_time()
        for step in range(at + 1, at + 101):
            curves.step(told(step, 1.0, tokens_per_s=5.0), at)
            curves.series(None)
        return time.process_time() - began

    assert min(tick(many, 30_000 + 100 * n) for n in range(3)) < 2 * max(tick(few, 400 + 100 * n) for n in range(3))
