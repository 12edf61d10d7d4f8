"""Readings on disk: what is missing is absent from the line, and comes back as None."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from zeroboard.contract.host import GpuFacts
from zeroboard.contract.readings import GpuReading, ProcessReading, Reading


def test_a_reading_comes_back_as_it_was_written_and_what_is_missing_takes_no_room() -> None:
    gpu = GpuReading(uuid="GPU-1", index=0, utilization=0.0, throttle=(), processes=(ProcessReading(pid=1, ours=True),))
    one = Reading(time=12.5, gpus=(gpu,), memory_used=0)
    line = one.model_dump_json(exclude_defaults=True)
    assert Reading.model_validate_json(line) == one
    assert set(json.loads(line)) == {"time", "gpus", "memory_used"}
    assert set(json.loads(line)["gpus"][0]) == {"uuid", "index", "utilization", "throttle", "processes"}
    assert one.gpus[0].memory_used is None and one.cpu_percent is None


def test_a_line_of_a_newer_version_can_be_read_and_one_without_a_time_cannot() -> None:
    assert Reading.model_validate_json('{"time": 1, "fan": 3, "gpus": [{"uuid": "a", "index": 0, "fan": 3}]}').time == 1
    with pytest.raises(ValidationError):
        Reading.model_validate_json('{"gpus": []}')


def test_a_reading_has_the_names_of_the_facts_that_it_is_taken_from() -> None:
    assert set(GpuReading.model_fields) <= set(GpuFacts.model_fields)
