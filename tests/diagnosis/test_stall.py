"""A training that stands still, and which rank is behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.diagnosis.run_of import beat, spec, step
from zeroboard.contract.beats import Beat
from zeroboard.contract.findings import Finding
from zeroboard.contract.state import State
from zeroboard.diagnosis.stall import Patience, Stall

PATIENCE = Patience(least=120, first=600, busy=1800, silent=20, steps=10)


def stalls(
    beats: Callable[[float], Sequence[Beat]],
    *,
    seconds: float,
    state: State = "running",
    usual: float | None = 1.0,
    after: float = 0.0,
) -> list[tuple[float, Finding]]:
    """Looks every 2 seconds, the steps (if any) made before; when something stood still, and what was said of it."""
    stall = Stall(spec=spec(), patience=PATIENCE)
    for number in range(1, 4 if usual is not None else 1):
        stall.take(step(number, seconds=usual or 0.0))
    found, now = [], after
    while now <= seconds:
        finding = stall.look(beats=beats(now), state=state, now=now)
        if finding is not None:
            found.append((now, finding))
        now += 2.0
    return found


def alive(*moves: int) -> Callable[[float], Sequence[Beat]]:
    """Ranks that beat and do not move."""
    return lambda now: [beat(rank, count, at=now) for rank, count in enumerate(moves)]


def test_the_rank_that_moved_least_is_behind() -> None:
    found = stalls(alive(40, 38, 40), seconds=130)
    assert found[0][0] == 120
    finding = found[0][1]
    assert (finding.code, finding.rank, finding.severity) == ("stalled", 1, "warning")
    assert finding.says == "finding.stalled.behind" and finding.params["where"] == "backward"
    assert all(later == finding for _, later in found)


def test_ranks_that_stand_at_one_place_are_not_told_apart() -> None:
    ((_, finding),) = stalls(alive(40, 40), seconds=120)
    assert (finding.rank, finding.says, finding.params["ranks"]) == (None, "finding.stalled.together", 2)


def test_a_rank_without_a_sign_of_life_is_found_sooner_and_named_although_it_moved_most() -> None:
    def beats(now: float) -> Sequence[Beat]:
        return [beat(0, 40, at=now), beat(1, 41, at=0.0)]

    found = stalls(beats, seconds=30)
    assert found[0][0] == 20
    assert (found[0][1].rank, found[0][1].says) == (1, "finding.stalled.silent")


def test_a_slow_training_is_given_time() -> None:
    assert stalls(alive(40, 38), seconds=499, usual=50.0) == []
    assert stalls(alive(40, 38), seconds=500, usual=50.0)[0][0] == 500


def test_steps_that_are_told_seldom_are_waited_for() -> None:
    stall = Stall(spec=spec("train.log_every=100"), patience=PATIENCE)
    stall.take(step(100, seconds=2.0))
    assert stall.look(beats=(), state="running", now=0.0) is None
    assert stall.look(beats=(), state="running", now=1999.0) is None
    assert stall.look(beats=(), state="running", now=2000.0) is not None


def test_what_moves_does_not_stand_still() -> None:
    assert stalls(lambda now: [beat(0, int(now), at=now), beat(1, 3, at=now)], seconds=400) == []


@pytest.mark.parametrize("state", ["starting", "saving", "verifying", "stopping"])
def test_whoever_starts_or_saves_may_be_long(state: State) -> None:
    assert stalls(alive(40, 38), seconds=1799, state=state) == []
    assert stalls(alive(40, 38), seconds=1800, state=state)[0][1].rank == 1


@pytest.mark.parametrize("where", ["save", "eval", "end"])
def test_a_rank_that_saves_or_evaluates_may_be_long(where: str) -> None:
    def beats(now: float) -> Sequence[Beat]:
        return [beat(0, 40, at=now).model_copy(update={"where": where}), beat(1, 39, at=now)]

    assert stalls(beats, seconds=1799) == []


def test_the_first_step_is_given_more_time() -> None:
    assert stalls(alive(4, 3), seconds=599, usual=None) == []
    assert stalls(alive(4, 3), seconds=600, usual=None)[0][1].rank == 1


def test_without_beats_the_events_alone_are_judged() -> None:
    ((_, finding),) = stalls(lambda now: (), seconds=120)
    assert (finding.says, finding.params["minutes"], finding.rank) == ("finding.stalled", 2, None)


def test_any_word_of_a_rank_is_a_movement() -> None:
    stall = Stall(spec=spec(), patience=PATIENCE)
    for now in range(0, 1000, 100):
        stall.take(step(now))
        assert stall.look(beats=alive(4, 3)(now), state="running", now=float(now)) is None


def test_a_rank_that_was_started_anew_begins_anew() -> None:
    stall = Stall(spec=spec(), patience=PATIENCE)
    stall.take(step(1))
    assert stall.look(beats=alive(9, 9)(0.0), state="running", now=0.0) is None
    again = [b.model_copy(update={"pid": 7, "moves": 9}) for b in alive(9, 9)(100.0)]
    assert stall.look(beats=again, state="running", now=100.0) is None
    assert stall.look(beats=again, state="running", now=119.0) is None
    assert stall.look(beats=[b.model_copy(update={"time": 219.0}) for b in again], state="running", now=219.0) is None
