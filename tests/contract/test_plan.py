"""Batches, hashes, and the written form of a plan."""

from __future__ import annotations

import json

from zeroboard.contract.plan import DTYPE_BYTES, Batch, ModelFacts, Plan, hash_files, plan_json
from zeroboard.contract.problems import Problem, errors


def test_the_global_batch_is_the_product() -> None:
    assert Batch(micro=2, accumulation=3, gpus=5).total == 30
    assert plan_json(Plan(batch=Batch(micro=2, accumulation=3, gpus=5)))["batch"]["global"] == 30


def test_the_hash_follows_names_and_contents_but_no_order() -> None:
    files = {"a": "1", "b": "2"}
    assert hash_files(files) == hash_files({"b": "2", "a": "1"})
    others = [{"a": "2", "b": "1"}, {"a": "1"}, {"a": "1", "b": "2 "}, {"a": "12", "b": ""}, {}]
    assert hash_files(files) not in {hash_files(other) for other in others}
    assert len({hash_files(other) for other in others}) == len(others)


def test_a_plan_is_good_unless_a_problem_is_an_error() -> None:
    batch = Batch(micro=1, accumulation=1, gpus=1)
    told = Problem(code="x", severity="warning")
    assert Plan(batch=batch, problems=(told,)).ok
    assert not Plan(batch=batch, problems=(told, Problem(code="y"))).ok
    assert [p.code for p in errors((told, Problem(code="y")))] == ["y"]


def test_a_plan_comes_back_from_what_is_written_even_of_a_newer_version() -> None:
    model = ModelFacts(path="/m", name="m", linear_shapes={"a.weight": (2, 3)}, tensor_sizes={6: 1})
    plan = Plan(batch=Batch(micro=1, accumulation=1, gpus=1), files={"a": "1"}, model=model)
    written = json.dumps({**plan_json(plan), "something_new": 1})
    assert Plan.model_validate_json(written) == plan


def test_half_precision_takes_two_bytes() -> None:
    assert DTYPE_BYTES == {"bf16": 2, "fp16": 2, "fp32": 4}
