"""Verb lines and requests: one JSON object a line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from zeroboard.contract.requests import (
    VERB_LINE,
    Answer,
    ChatAsk,
    ChatToken,
    MergeRequest,
    Progress,
    StopRequest,
    read_stop,
)
from zeroboard.files import write_atomic
from zeroboard.paths import RunPaths


def test_a_verbs_lines_are_told_apart() -> None:
    for line in (Progress(phase="load", done=0.5), Answer(value={"a": 1}), ChatToken(id="1", which="base", text="x")):
        assert VERB_LINE.validate_json(line.model_dump_json()) == line


def test_a_question_keeps_to_one_line_whatever_is_asked() -> None:
    ask = ChatAsk.model_validate({"id": "1", "messages": [{"role": "user", "content": "one\ntwo\u2028three"}]})
    line = ask.model_dump_json()
    assert "\n" not in line and ChatAsk.model_validate_json(line) == ask


def test_a_stop_saves_unless_it_says_otherwise() -> None:
    assert StopRequest(time=0.0).discard is False


def test_a_stop_that_cannot_be_read_is_one_to_save(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    assert read_stop(run) is None
    write_atomic(run.stop_request, StopRequest(discard=True, time=1.0).model_dump_json())
    assert read_stop(run) == StopRequest(discard=True, time=1.0)
    for broken in ('{"discard": tr', "[]", "\xff"):
        write_atomic(run.stop_request, broken)
        asked = read_stop(run)
        assert asked is not None and not asked.discard


def test_a_pipe_in_the_place_of_a_stop_is_one_to_save_and_nobody_waits(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "r")
    run.requests.mkdir(parents=True)
    os.mkfifo(run.stop_request)
    asked = read_stop(run)
    assert asked is not None and not asked.discard


def test_a_line_of_another_kind_is_refused() -> None:
    with pytest.raises(ValidationError):
        VERB_LINE.validate_json('{"kind": "other"}')


def test_a_merge_keeps_the_bases_type_unless_another_is_asked_for() -> None:
    request = MergeRequest(path="/a", target="/m")
    assert request.dtype is None and request.shard_bytes == 5_000_000_000
    with pytest.raises(ValidationError):
        MergeRequest.model_validate({"path": "/a", "target": "/m", "dtype": "int8"})
