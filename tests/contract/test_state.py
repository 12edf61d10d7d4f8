"""The ways that a run may go."""

from __future__ import annotations

from typing import get_args

from zeroboard.contract.state import ENDED, LIVE, TRANSITIONS, RunState, State, may_go

STATES: tuple[State, ...] = get_args(State)


def test_every_state_has_its_ways_and_knows_where_it_stands() -> None:
    assert set(TRANSITIONS) == set(STATES)
    assert not ENDED & LIVE
    assert ENDED | LIVE | {"planned", "lost"} == set(STATES)


def test_what_has_ended_stays_so() -> None:
    for state in ENDED:
        assert not TRANSITIONS[state] and may_go(state, state)


def test_every_live_run_can_fail_and_be_lost() -> None:
    for state in LIVE:
        assert may_go(state, "failed") and may_go(state, "lost")


def test_every_state_is_reached_from_planned_and_every_run_can_end() -> None:
    def reached(start: State) -> set[State]:
        seen: set[State] = set()
        todo = [start]
        while todo:
            state = todo.pop()
            if state not in seen:
                seen.add(state)
                todo += TRANSITIONS[state]
        return seen

    assert reached("planned") == set(STATES)
    for state in STATES:
        assert state in ENDED or reached(state) & ENDED


def test_a_run_does_not_finish_without_being_verified() -> None:
    for state in ("planned", "starting", "running", "saving", "stopping"):
        assert not may_go(state, "finished")  # type: ignore[arg-type]


def test_a_state_comes_back_from_its_json() -> None:
    state = RunState(
        id="r",
        created=1.0,
        changed=1.0,
        model="m",
        stage="2",
        offload="none",
        method="lora",
        ranks=2,
        devices=("cpu",),
        plan_hash="h",
    )
    assert RunState.model_validate_json(state.model_dump_json()) == state
