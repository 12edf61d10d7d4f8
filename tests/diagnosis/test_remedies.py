"""Remedies: their order, fields that are fields, and nothing that is done already."""

from __future__ import annotations

import pytest

from zeroboard.contract.findings import FINDING_CODES
from zeroboard.contract.problems import Scalar
from zeroboard.contract.spec import FieldFacts, RunSpec, fields
from zeroboard.diagnosis.matching import RULES
from zeroboard.diagnosis.remedies import REMEDIES, remedies
from zeroboard.messages import LANGUAGES, has
from zeroboard.planning.specs import with_sets


def spec(*sets: str) -> RunSpec:
    return RunSpec.model_validate(with_sets({"model": {"path": "m"}, "data": {"path": "d"}}, sets))


def test_a_full_gpu_is_helped_in_the_order_of_least_harm() -> None:
    found = remedies("cuda-oom", spec("train.micro_batch=4", "train.accumulation=2", "method.kind=full"))
    assert [r.says.removeprefix("remedy.") for r in found] == [
        "smaller-batches", "checkpointing", "offload", "kept-tensors", "shorter-rows", "higher-stage", "lora",
    ]  # fmt: skip
    assert found[0].set == {"train.micro_batch": 2, "train.accumulation": 4}
    assert found[1].set == {"train.activation_checkpointing": True}
    assert found[2].set == {"zero.stage": "2", "zero.offload": "optimizer"}
    assert found[4].set == {"data.max_length": 512}


@pytest.mark.parametrize(("micro", "passes"), [(2, 1), (3, 5), (7, 3), (64, 1)])
def test_a_smaller_micro_batch_keeps_at_least_the_global_batch(micro: int, passes: int) -> None:
    first = remedies("cuda-oom", spec(f"train.micro_batch={micro}", f"train.accumulation={passes}"))[0]
    assert first.set is not None
    half, more = first.set["train.micro_batch"], first.set["train.accumulation"]
    assert isinstance(half, int) and isinstance(more, int)
    assert half == micro // 2 and 0 <= half * more - micro * passes < half


def test_what_is_done_already_is_not_told_again() -> None:
    asked = spec(
        "train.micro_batch=1", "train.activation_checkpointing=true", "zero.stage=3", "zero.offload=all",
        "data.max_length=128",
    )  # fmt: skip
    assert [r.says for r in remedies("cuda-oom", asked)] == ["remedy.kept-tensors"]


def test_more_offload_follows_on_less() -> None:
    def offload(*sets: str) -> object:
        return next((r.set for r in remedies("cuda-oom", spec(*sets)) if r.says == "remedy.offload"), None)

    assert offload("zero.stage=3") == {"zero.offload": "optimizer"}
    assert offload("zero.stage=3", "zero.offload=optimizer") == {"zero.offload": "all"}
    assert offload("zero.stage=2", "zero.offload=optimizer") is None


def test_without_a_spec_only_what_is_sure_is_set() -> None:
    found = {r.says: r.set for r in remedies("cuda-oom", None)}
    assert found["remedy.smaller-batches"] is None and found["remedy.shorter-rows"] is None
    assert found["remedy.checkpointing"] == {"train.activation_checkpointing": True}


SPECS = (
    (),
    ("zero.stage=2", "zero.offload=optimizer", "train.precision=fp16"),
    ("devices.count=4", "zero.stage=3", "train.max_grad_norm=0"),
    ("zero.stage=1", "zero.overlap_comm=true", "zero.bucket_size=500000000", "method.kind=full"),
    ("train.micro_batch=3", "train.accumulation=65536", "data.max_length=8", "train.learning_rate=1e-30"),
    ("train.micro_batch=4096", "train.accumulation=1", "zero.stage=3", "zero.offload=all",
     "zero.bucket_size=1000000000000", "train.keep_checkpoints=1", "data.max_length=1048576"),
)  # fmt: skip
FIELDS = {facts.key: facts for facts in fields()}


def may_hold(facts: FieldFacts, value: Scalar) -> bool:
    """Whether the table of fields lets a field have a value."""
    if value is None:
        return facts.optional
    if facts.choices:
        return value in facts.choices
    if facts.kind == "switch":
        return isinstance(value, bool)
    if facts.kind in ("text", "list"):
        return facts.kind == "text" and isinstance(value, str)
    number = isinstance(value, int if facts.kind == "integer" else (int, float)) and not isinstance(value, bool)
    assert number and isinstance(value, (int, float)), (facts.key, value)
    low = (facts.ge is None or value >= facts.ge) and (facts.gt is None or value > facts.gt)
    return low and (facts.le is None or value <= facts.le) and (facts.lt is None or value < facts.lt)


@pytest.mark.parametrize("key", REMEDIES)
@pytest.mark.parametrize("sets", SPECS, ids=lambda sets: ",".join(sets)[:40])
def test_every_field_that_a_remedy_sets_may_be_set_so(key: str, sets: tuple[str, ...]) -> None:
    asked = spec(*sets)
    for remedy in remedies(key, asked):
        assert all(has(remedy.says, language) for language in LANGUAGES)
        if remedy.set is not None:
            assert remedy.set
            value = asked.model_dump()
            for dotted, wanted in remedy.set.items():
                assert dotted in FIELDS and may_hold(FIELDS[dotted], wanted), (dotted, wanted)
                section, name = dotted.split(".")
                value[section][name] = wanted
            assert RunSpec.model_validate(value) != asked or remedy.says == "remedy.gather"


@pytest.mark.parametrize("key", REMEDIES)
def test_without_a_spec_a_remedy_sets_only_what_any_spec_may_have(key: str) -> None:
    for remedy in remedies(key, None):
        for dotted, wanted in (remedy.set or {}).items():
            assert may_hold(FIELDS[dotted], wanted), (dotted, wanted)


@pytest.mark.parametrize(("micro", "passes"), [(1, 8), (2, 2), (16, 64)])
def test_larger_batches_keep_the_global_batch_where_the_accumulation_is_even(micro: int, passes: int) -> None:
    first = remedies("gpu-idle", spec(f"train.micro_batch={micro}", f"train.accumulation={passes}"))[0]
    assert first.set == {"train.micro_batch": 2 * micro, "train.accumulation": passes // 2}


def test_gpus_that_idle_are_helped_in_the_order_of_the_hints_and_without_a_stage_by_fewer() -> None:
    def hints(*sets: str) -> list[str]:
        return [r.says.removeprefix("remedy.") for r in remedies("gpu-idle", spec(*sets))]

    assert hints("zero.stage=2") == ["larger-batches", "overlap", "faster-network", "larger-buckets"]
    assert hints("zero.stage=2", "zero.overlap_comm=true") == ["larger-batches", "faster-network", "larger-buckets"]
    assert "overlap" not in hints()


def test_every_code_and_every_variant_has_its_remedies() -> None:
    keys = {*FINDING_CODES, *(rule.key for rule in RULES)}
    assert keys <= set(REMEDIES)
    assert {key for key in keys if not REMEDIES[key]} == {"benign"}
