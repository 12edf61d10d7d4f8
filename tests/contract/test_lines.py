"""Events and verb lines: one JSON object a line, told apart by its kind."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from zeroboard.contract.events import EVENT, ProofEvent, StepEvent
from zeroboard.contract.reports import Check, DataProblem, RankProof, overall
from zeroboard.contract.requests import VERB_LINE, Answer, ChatToken, Progress


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


def test_a_verbs_lines_are_told_apart() -> None:
    for line in (Progress(phase="load", done=0.5), Answer(value={"a": 1}), ChatToken(id="1", which="base", text="x")):
        assert VERB_LINE.validate_json(line.model_dump_json()) == line


def test_the_worst_check_decides_and_a_skipped_one_says_nothing() -> None:
    def checks(*verdicts: str) -> tuple[Check, ...]:
        return tuple(Check.model_validate({"name": "size", "verdict": v, "says": "x"}) for v in verdicts)

    assert overall(checks("pass", "skip")) == "pass"
    assert overall(checks("pass", "warn", "skip")) == "warn"
    assert overall(checks("warn", "fail", "pass")) == "fail"
    assert overall(()) == "pass"


def test_the_sentence_of_a_data_problem_is_that_of_its_code_unless_it_says_another() -> None:
    assert DataProblem(code="empty-output", severity="error", count=1).message_key == "data.empty-output"
    assert DataProblem(code="x", severity="error", count=1, says="data.y").message_key == "data.y"
