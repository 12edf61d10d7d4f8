"""The time that is left: within 15 % from a tenth of the way on, whatever the training does beside its steps."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from zeroboard.contract.events import EvalEvent, SaveEvent, StepEvent
from zeroboard.runs.pace import Ahead, Pace

FROM = 0.1
BOUND = 0.15


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a training does; durations in seconds."""

    steps: int = 200
    seconds: Callable[[int], float] = lambda step: 2.0
    """Of a step, by its number."""
    evaluate_every: int | None = None
    evaluation: float = 0.0
    save_every: int | None = None
    save: float = 0.0
    log_every: int = 1
    waits_in_steps: bool = True
    """The engine's `step_time` goes from log to log, evaluations and saves included."""

    def course(self, pace: Pace, begin: int = 0) -> Iterator[tuple[int, float]]:
        """Drives the pace; after each event (step, seconds since the beginning)."""
        now, logged, at = 0.0, 0.0, begin
        pure = 0.0
        for step in range(begin + 1, self.steps + 1):
            now += self.seconds(step)
            pure += self.seconds(step)
            if step % self.log_every == 0:
                spent = now - logged if self.waits_in_steps else pure
                pace.stepped(
                    StepEvent(
                        seq=1, time=now, rank=0, step=step, epoch=0.0, loss=1.0, learning_rate=1.0,
                        step_time=spent / (step - at),
                    )
                )  # fmt: skip
                logged, at, pure = now, step, 0.0
                yield step, now
            if self.evaluate_every and step % self.evaluate_every == 0:
                now += self.evaluation
                seconds = self.evaluation
                pace.evaluated(
                    EvalEvent(seq=1, time=now, rank=0, step=step, epoch=0.0, loss=1.0, rows=9, seconds=seconds)
                )
                yield step, now
            if self.save_every and step % self.save_every == 0:
                pace.saved(SaveEvent(seq=1, time=now, rank=0, step=step, path=f"c-{step}", done=False))
                now += self.save
                pace.saved(SaveEvent(seq=1, time=now, rank=0, step=step, path=f"c-{step}", done=True))
                yield step, now


def errors(training: Training, ahead: Ahead, pace: Pace | None = None, begin: int = 0) -> list[tuple[int, float]]:
    """After each event from a tenth of the way on: (step, error as a share of the time that was truly left).

    An error of less than the longest step counts as none: nobody can tell it nearer than that.
    """
    pace = pace or Pace()
    told = [(step, now, pace.left(ahead)) for step, now in training.course(pace, begin)]
    end = told[-1][1]
    grain = sorted(training.seconds(step) for step in range(1, training.steps + 1))[-4] * training.log_every
    found = []
    for step, now, left in told:
        if step >= FROM * training.steps and now < end:
            assert left is not None
            error = abs(left - (end - now))
            found.append((step, error / (end - now) if error > grain else 0.0))
    return found


def rising(step: int) -> float:
    return 2.0 * (1 + 0.25 * step / 200)


def noisy(step: int) -> float:
    return 2.0 * random.Random(step).lognormvariate(0.0, 0.15)


def long_and_short(step: int) -> float:
    """Batches of two kinds of length."""
    return 5.0 if step % 4 == 0 else 1.0


def slow_start(step: int) -> float:
    return {1: 90.0, 2: 12.0, 3: 5.0}.get(step, 2.0)


def one_hiccup(step: int) -> float:
    return 120.0 if step == 15 else 2.0


TRAININGS = {
    "constant": Training(),
    "slow start": Training(seconds=slow_start),
    "slow start of a short run": Training(steps=30, seconds=lambda step: 60.0 if step == 1 else 1.9 + 0.1 * (step % 3)),
    "noise": Training(seconds=noisy),
    "two lengths": Training(seconds=long_and_short),
    "drift up": Training(seconds=rising),
    "drift down": Training(seconds=lambda step: 2.5 - 0.5 * step / 200),
    "one hiccup": Training(seconds=one_hiccup),
    "logs every ten": Training(steps=1000, seconds=slow_start, log_every=10),
    "evaluation": Training(seconds=noisy, evaluate_every=10, evaluation=8.0),
    "evaluation outside of step times": Training(
        seconds=noisy, evaluate_every=10, evaluation=8.0, waits_in_steps=False
    ),
    "evaluation and saves": Training(
        seconds=noisy, evaluate_every=20, evaluation=9.0, save_every=15, save=15.0, log_every=5
    ),
    "slow start, drift, evaluation and saves": Training(
        steps=2000, seconds=lambda step: slow_start(step) + 0.4 * step / 2000, evaluate_every=100, evaluation=60.0,
        save_every=150, save=20.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAININGS)
def test_within_15_percent_from_a_tenth_of_the_way_on(name: str) -> None:
    training = TRAININGS[name]
    plan = Ahead(
        steps=training.steps,
        save_every=training.save_every,
        evaluate_every=training.evaluate_every,
        evaluation_rows=round(training.evaluation / 2.0 / 0.4 * 8),
        samples_a_step=8,
    )
    found = errors(training, plan)
    worst = max(found, key=lambda part: part[1])
    assert len(found) >= 0.85 * (training.steps // training.log_every) - 2
    assert worst[1] <= BOUND, worst


def test_an_evaluation_that_was_never_seen_is_expected_by_its_rows() -> None:
    training = Training(evaluate_every=50, evaluation=40.0)
    rows = round(40.0 / 2.0 / 0.4 * 8)
    found = errors(training, Ahead(steps=200, evaluate_every=50, evaluation_rows=rows, samples_a_step=8))
    assert max(error for _, error in found) <= BOUND
    blind = errors(training, Ahead(steps=200))
    assert max(error for _, error in blind) > BOUND


def test_how_often_it_evaluates_is_learnt_where_no_plan_tells() -> None:
    found = errors(Training(evaluate_every=10, evaluation=10.0), Ahead(steps=200))
    assert max(error for _, error in found) <= BOUND


def test_a_second_attempt_does_its_evaluations_again() -> None:
    pace = Pace()
    first = Training(steps=100, evaluate_every=20, evaluation=30.0)
    for _ in first.course(pace):
        pass
    pace.began()
    second = Training(steps=200, evaluate_every=20, evaluation=30.0)
    found = errors(second, Ahead(steps=200, evaluate_every=20), pace, begin=50)
    assert found and max(error for _, error in found) <= BOUND


def test_nothing_is_told_before_the_first_step() -> None:
    assert Pace().left(Ahead(steps=10)) is None
