"""Events: one JSON object a line, told apart by its kind."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from zeroboard.contract.events import EVENT, ProofEvent, StepEvent
from zeroboard.contract.reports import RankProof


def test_an_event_comes_back_as_what_it_was() -> None:
    rank = RankProof(
        rank=0,
        host="h",
        device="cpu",
        pid=1,
        engine="deepspeed",
        stage=2,
        parameter_bytes=1,
        gradient_bytes=None,
        optimizer_bytes=1,
        offloaded_bytes=0,
    )
    step = StepEvent(seq=1, time=0.0, rank=0, step=1, epoch=0.5, loss=None, learning_rate=1e-3, step_time=1.0)
    for event in (step, ProofEvent(seq=2, time=0.0, rank=0, ranks=(rank,))):
        line = event.model_dump_json()
        assert "\n" not in line and EVENT.validate_json(line) == event


def test_a_loss_that_is_no_number_is_none_and_never_nan() -> None:
    with pytest.raises(ValidationError):
        StepEvent(seq=1, time=0.0, rank=0, step=1, epoch=1, loss=float("nan"), learning_rate=1.0, step_time=1.0)


def test_an_event_of_an_unknown_kind_is_refused_and_a_new_field_is_not() -> None:
    with pytest.raises(ValidationError):
        EVENT.validate_json('{"kind": "other", "seq": 1, "time": 0, "rank": 0}')
    known = '{"kind": "end", "seq": 1, "time": 0, "rank": 0, "reason": "completed", "step": 3, "new": 1}'
    assert EVENT.validate_json(known).kind == "end"
