"""What a stage promises, and how a measurement is judged against it."""

from __future__ import annotations

import pytest

from zeroboard.contract.plan import Promise
from zeroboard.contract.reports import RankProof
from zeroboard.contract.spec import Offload, Stage
from zeroboard.messages import has
from zeroboard.zero.promise import (
    judge_proof,
    lora_matrices,
    lora_parameters,
    promise,
    targeted,
    whole_elements,
)

MILLION = 1_000_000


def of(stage: Stage, offload: Offload = "none", *, ranks: int = 2, frozen: int = 0, trained: int = MILLION) -> Promise:
    return promise(
        stage=stage,
        offload=offload,
        ranks=ranks,
        frozen_parameters=frozen,
        trainable_parameters=trained,
        dtype="bf16",
    )


def kept(expected: Promise, count: int = 2, *, stage: int = 2, **other: object) -> tuple[RankProof, ...]:
    """Ranks that hold exactly what is promised, but for `other`."""
    facts = {
        "parameter_bytes": expected.parameter_bytes,
        "gradient_bytes": expected.gradient_bytes,
        "optimizer_bytes": expected.optimizer_bytes,
        "offloaded_bytes": expected.offloaded_bytes,
        "engine": "deepspeed" if stage else "ddp",
        **other,
    }
    return tuple(
        RankProof.model_validate({"rank": r, "host": "h", "device": "cpu", "pid": r, "stage": stage, **facts})
        for r in range(count)
    )


def test_each_stage_shards_one_thing_more() -> None:
    none, one, two, three = (of(stage) for stage in ("none", "1", "2", "3"))
    assert (none.parameter_bytes, none.gradient_bytes, none.optimizer_bytes) == (4 * MILLION, 4 * MILLION, 8 * MILLION)
    assert (one.parameter_bytes, one.gradient_bytes, one.optimizer_bytes) == (2 * MILLION, 2 * MILLION, 6 * MILLION)
    assert (two.parameter_bytes, two.gradient_bytes, two.optimizer_bytes) == (2 * MILLION, MILLION, 6 * MILLION)
    assert (three.parameter_bytes, three.gradient_bytes, three.optimizer_bytes) == (MILLION, MILLION, 6 * MILLION)


def test_the_published_seven_billion_example_holds() -> None:
    """ZeRO, figure 1: 7.5 billion parameters, 64 GPUs, K = 12, in GB: 120, 31.4, 16.6, 1.9."""
    sums = []
    for stage in ("1", "2", "3"):
        p = of(stage, ranks=64, trained=7_500_000_000)
        sums.append((p.parameter_bytes + p.gradient_bytes + p.optimizer_bytes) / 1e9)
    assert sums == pytest.approx([31.4, 16.6, 1.9], abs=0.06)


def test_frozen_parameters_have_no_gradient_and_no_state() -> None:
    for stage in ("none", "1", "2", "3"):
        with_frozen, without = of(stage, frozen=9 * MILLION), of(stage)
        assert with_frozen.gradient_bytes == without.gradient_bytes
        assert with_frozen.optimizer_bytes == without.optimizer_bytes
        assert with_frozen.parameter_bytes > without.parameter_bytes


def test_offload_moves_and_does_not_shrink() -> None:
    assert of("2", "optimizer").optimizer_bytes == of("2").optimizer_bytes
    assert of("2").offloaded_bytes == 0
    assert of("2", "optimizer").offloaded_bytes == of("2").optimizer_bytes
    everything = of("3", "all")
    assert everything.offloaded_bytes == everything.optimizer_bytes + everything.parameter_bytes


def test_offload_keeps_fp32_gradients_beside_the_others() -> None:
    for stage in ("1", "2", "3"):
        more = of(stage, "optimizer").gradient_bytes - of(stage).gradient_bytes
        assert more == 4 * MILLION // 2


def test_shares_are_rounded_up() -> None:
    assert of("3", ranks=3, trained=10).optimizer_bytes == 4 * 12


def test_small_tensors_stay_whole_at_stage_3() -> None:
    assert whole_elements([(64, 5), (640, 1), (641, 9)], 640) == 960
    sharded = promise(
        stage="3",
        offload="none",
        ranks=2,
        frozen_parameters=0,
        trainable_parameters=1000,
        dtype="fp32",
        whole_parameters=100,
    )
    assert sharded.parameter_bytes == (500 + 100) * 4


@pytest.mark.parametrize("bad", [{"ranks": 0}, {"frozen_parameters": -1}, {"trainable_parameters": -1}])
def test_impossible_counts_are_refused(bad: dict[str, int]) -> None:
    good = {"ranks": 1, "frozen_parameters": 1, "trainable_parameters": 1} | bad
    with pytest.raises(ValueError, match="must be positive"):
        promise(stage="1", offload="none", dtype="fp32", **good)


def test_absurd_sizes_are_only_large_numbers() -> None:
    assert of("3", trained=10**30, ranks=10**6).optimizer_bytes == 12 * 10**24


LAYERS = {
    "model.layers.0.self_attn.q_proj.weight": (64, 64),
    "model.layers.0.self_attn.k_proj.weight": (32, 64),
    "model.layers.0.mlp.up_proj.weight": (128, 64),
}


def test_lora_trains_rank_times_in_plus_out() -> None:
    assert lora_parameters(LAYERS, 8, "all-linear") == 8 * (128 + 96 + 192)
    assert lora_parameters(LAYERS, 8, "q_proj, k_proj") == 8 * (128 + 96)
    assert lora_parameters(LAYERS, 8, "nothing") == 0
    assert sorted(lora_matrices(LAYERS, 2, "k_proj")) == [64, 128]


def test_a_target_matches_whole_names_only() -> None:
    assert not targeted(LAYERS, "proj")
    assert set(targeted(LAYERS, "self_attn.q_proj")) == {"model.layers.0.self_attn.q_proj.weight"}


def verdict(ranks: tuple[RankProof, ...], expected: Promise | None, stage: Stage, **more: object) -> tuple[str, str]:
    facts: dict[str, object] = {"offload": "none", "trainable_share": 1.0, **more}
    proof = judge_proof(ranks, expected, stage=stage, **facts)  # type: ignore[arg-type]
    assert has(proof.says) and has(proof.says, "zh-CN"), proof.says
    return proof.verdict, proof.says


@pytest.mark.parametrize("stage", ["1", "2", "3"])
def test_a_kept_promise_is_in_effect(stage: Stage) -> None:
    expected = of(stage)
    assert verdict(kept(expected, stage=int(stage)), expected, stage) == ("in effect", f"proof.in-effect.{stage}")


def test_plain_data_parallel_is_in_effect_when_everything_is_whole() -> None:
    expected = of("none")
    assert verdict(kept(expected, stage=0), expected, "none") == ("in effect", "proof.whole")


def test_padding_within_the_tolerance_is_no_fault() -> None:
    expected = of("2")
    ranks = kept(expected, optimizer_bytes=int(expected.optimizer_bytes * 1.04))
    assert verdict(ranks, expected, "2")[0] == "in effect"


def test_released_gradients_are_no_fault() -> None:
    expected = of("2")
    for measured in (None, 0):
        assert verdict(kept(expected, gradient_bytes=measured), expected, "2")[0] == "in effect"


def test_another_stage_than_asked_is_not_in_effect() -> None:
    expected = of("3")
    assert verdict(kept(expected, stage=2), expected, "3") == ("not in effect", "proof.other-stage")
    assert verdict(kept(expected, stage=3, engine="ddp"), expected, "3")[0] == "not in effect"
    assert verdict(kept(of("none"), stage=0, engine="deepspeed"), of("none"), "none")[0] == "not in effect"


@pytest.mark.parametrize("what", ["optimizer", "parameter", "gradient"])
def test_holding_whole_what_should_be_shared_is_not_in_effect(what: str) -> None:
    expected = of("3")
    whole = {f"{what}_bytes": 2 * getattr(expected, f"{what}_bytes")}
    names = {"optimizer": "optimizer", "parameter": "parameters", "gradient": "gradients"}
    assert verdict(kept(expected, stage=3, **whole), expected, "3") == (
        "not in effect",
        f"proof.held-whole.{names[what]}",
    )


def test_one_rank_that_breaks_the_promise_is_enough() -> None:
    expected = of("2", ranks=4)
    good = kept(expected, 3)
    bad = kept(expected, 1, optimizer_bytes=expected.optimizer_bytes * 4)
    assert verdict((*good, *bad), expected, "2")[0] == "not in effect"


def test_a_size_between_is_partly() -> None:
    expected = of("2", ranks=4)
    ranks = kept(expected, 4, optimizer_bytes=expected.optimizer_bytes * 2)
    assert verdict(ranks, expected, "2") == ("partly", "proof.other-size.optimizer")
    assert verdict(kept(expected, 4, optimizer_bytes=0), expected, "2")[0] == "partly"


def test_states_that_were_not_offloaded_are_not_in_effect() -> None:
    expected = of("2", "optimizer")
    assert verdict(kept(expected, offloaded_bytes=0), expected, "2", offload="optimizer") == (
        "not in effect",
        "proof.not-offloaded",
    )
    counters = kept(expected, offloaded_bytes=1200)  # what torch's own Adam always keeps there
    assert verdict(counters, expected, "2", offload="optimizer")[0] == "not in effect"
    assert verdict(kept(of("2")), None, "2", offload="optimizer") == ("not in effect", "proof.nothing-offloaded")
    assert verdict(kept(expected), None, "2", offload="optimizer")[0] == "partly"
    half = kept(expected, offloaded_bytes=expected.offloaded_bytes // 2)
    assert verdict(half, expected, "2", offload="optimizer")[0] == "partly"
    assert verdict(kept(expected), expected, "2", offload="optimizer")[1] == "proof.in-effect.offload"


def test_lora_is_told_that_the_stage_saves_little() -> None:
    expected = of("2", frozen=99 * MILLION)
    proof = judge_proof(kept(expected), expected, stage="2", offload="none", trainable_share=0.01)
    assert (proof.verdict, proof.says) == ("in effect", "proof.in-effect.small-share")
    assert proof.params["trained_percent"] == 1.0


@pytest.mark.parametrize("kept_bytes", [120 * MILLION, 60 * MILLION])
def test_frozen_parameters_that_stay_gathered_are_partly(kept_bytes: int) -> None:
    expected = of("3", frozen=99 * MILLION)
    ranks = kept(expected, stage=3, frozen_released=False, parameter_bytes=expected.parameter_bytes + kept_bytes)
    assert verdict(ranks, expected, "3") == ("partly", "proof.frozen-kept")
    assert verdict(kept(expected, stage=3, frozen_released=True), expected, "3")[0] == "in effect"


def test_what_is_not_in_effect_outweighs_what_is_partly() -> None:
    expected = of("3", frozen=99 * MILLION)
    whole = {"frozen_released": False, "optimizer_bytes": 2 * expected.optimizer_bytes}
    assert verdict(kept(expected, stage=3, **whole), expected, "3")[1] == "proof.held-whole.optimizer"


def test_ranks_that_do_not_work_together_are_not_in_effect() -> None:
    expected = of("2")
    for found in (1, 3):
        assert verdict(kept(expected, found), expected, "2", planned_ranks=2) == ("not in effect", "proof.other-ranks")
    assert verdict(kept(expected, 2), expected, "2", planned_ranks=2)[0] == "in effect"


def test_one_rank_alone_cannot_share() -> None:
    expected = of("2", ranks=1)
    assert verdict(kept(expected, 1), expected, "2") == ("partly", "proof.one-rank")


def test_nothing_measured_or_nothing_promised_is_never_called_good() -> None:
    assert verdict((), of("2"), "2") == ("not in effect", "proof.no-ranks")
    assert verdict(kept(of("2")), None, "2") == ("partly", "proof.nothing-to-compare")
