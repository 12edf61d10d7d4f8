"""What was chosen of ZeRO beyond stage and offload: what it needs, what has no effect, what the file then says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.planning import facts as make
from zeroboard.contract.folders import FolderFacts
from zeroboard.contract.host import HostFacts
from zeroboard.contract.plan import Plan
from zeroboard.contract.problems import Problem
from zeroboard.contract.spec import ZeroSpec, fields
from zeroboard.contract.toolchain import OpFacts, Toolchain
from zeroboard.messages import LANGUAGES, has, say
from zeroboard.paths import Paths
from zeroboard.planning.planner import make_plan
from zeroboard.planning.zero_rules import BY_OTHERS, MEANT
from zeroboard.zero.promise import judge_proof

FAST = FolderFacts(path="/fast", exists=True, writable=True, filesystem="ext4", free=1 << 40)
NVME = ["zero.stage=3", "zero.offload=all", "zero.optimizer_device=nvme", "zero.param_device=nvme",
        "zero.nvme_path=/fast", "method.kind=full"]  # fmt: skip
BIG = make.host(memory_total=1 << 40, memory_available=1 << 40, disk_total=1 << 42, disk_free=1 << 42)
LARGE = {"parameters": 10**9, "tensor_sizes": {10**8: 10}}


@pytest.fixture
def planned(tmp_path: Path) -> Any:
    def plan(
        *sets: str,
        host: HostFacts | None = None,
        model: Any = None,
        tokens: bool = False,
        swap: FolderFacts | None = FAST,
        toolchain: Toolchain | None = None,
        run_id: str | None = "a-run",
    ) -> Plan:
        return make_plan(
            make.spec(*sets),
            host=host or make.host(),
            paths=Paths(tmp_path / "cache"),
            model=make.model(tmp_path / "m", **(model or {})),
            data=make.data(tmp_path / "d.jsonl"),
            tokens=make.tokens() if tokens else None,
            swap=swap,
            toolchain=toolchain,
            run_id=run_id,
        )

    return plan


def named(plan: Plan) -> dict[str, Problem]:
    """Sentence key → problem; every sentence and remedy must be there, filled to the last place."""
    for problem in plan.problems:
        for language in LANGUAGES:
            for key in (problem.message_key, problem.remedy_key):
                assert has(key, language), key
                assert "{" not in say(key, language, **{"field": problem.field, **problem.params}), key
    return {problem.message_key.removeprefix("problem."): problem for problem in plan.problems}


def file(plan: Plan) -> dict[str, Any]:
    (name,) = [name for name in plan.files if name.startswith("ds_")]
    return json.loads(plan.files[name])  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("sets", "says", "field"),
    [
        (["zero.stage=2", "zero.prefetch_bucket_size=5"], "stage-3", "zero.prefetch_bucket_size"),
        (["zero.stage=3", "zero.allgather_bucket_size=5"], "stage-12", "zero.allgather_bucket_size"),
        (["zero.stage=2", "zero.pin_memory=on"], "offload", "zero.pin_memory"),
        (["zero.stage=2", "zero.round_robin_gradients=true"], "offload", "zero.round_robin_gradients"),
        (["zero.stage=3", "zero.offload=optimizer", "zero.param_device=nvme"], "offload-all", "zero.param_device"),
        (["zero.stage=3", "zero.offload=all", "zero.aio_queue_depth=9"], "nvme", "zero.aio_queue_depth"),
        (["zero.stage=3", "zero.offload=all", "zero.nvme_path=/fast"], "nvme", "zero.nvme_path"),
        ([*NVME[:3], *NVME[4:], "zero.param_buffers=9"], "nvme-params", "zero.param_buffers"),
        ([*NVME[:2], *NVME[3:], "zero.optimizer_buffers=9"], "nvme-optimizer", "zero.optimizer_buffers"),
        (["zero.stage=2", "zero.hysteresis=5"], "fp16", "zero.hysteresis"),
        (["zero.stage=2", "zero.warmup_curve=linear"], "scheduler", "zero.warmup_curve"),
        (["zero.stage=2", "zero.scheduler=WarmupLR", "train.warmup_steps=2", "zero.cosine_min_ratio=0.5"], "cosine",
         "zero.cosine_min_ratio"),
        (["zero.stage=2", "zero.offload=optimizer", "zero.contiguous_gradients=false"], "contiguous",
         "zero.contiguous_gradients"),
        (["train.warmup_steps=2", "train.warmup_ratio=0.5"], "warmup", "train.warmup_ratio"),
        (["zero.stage=2", "zero.scheduler=WarmupLR", "train.warmup_steps=2", "train.schedule=linear"], "deepspeed",
         "train.schedule"),
        (["zero.stage=3", "zero.offload=optimizer", "zero.ratio=0.5"], "ratio", "zero.ratio"),
        ([*NVME, "zero.ratio=0.5"], "ratio-nvme", "zero.ratio"),
        ([*NVME[:5], "method.kind=lora"], "small-states", "zero.optimizer_device"),
        (["zero.sub_group_size=5"], "stage-none", "zero.sub_group_size"),
        (["zero.optimizer=deepspeed"], "stage-none", "zero.optimizer"),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_told_and_does_not_stop(planned: Any, sets: list[str], says: str, field: str) -> None:
    plan = planned(*sets)
    problem = named(plan)[f"ignored-choice.{says}"]
    assert (problem.field, problem.severity, plan.ok) == (field, "warning", True)


def test_a_fixed_loss_scale_makes_the_moving_ones_meaningless(planned: Any) -> None:
    sets = ["zero.stage=2", "train.precision=fp16", "zero.loss_scale=128", "zero.hysteresis=5"]
    assert named(planned(*sets, host=make.host(2)))["ignored-choice.dynamic"].field == "zero.hysteresis"
    free = planned(*(one for one in sets if "loss_scale" not in one), host=make.host(2))
    assert not [p for p in free.problems if p.code == "ignored-choice"] and file(free)["fp16"]["hysteresis"] == 5


def test_every_field_of_zero_is_heeded_by_every_stage_or_its_lack_of_effect_is_told() -> None:
    conditional = {name for _, names in MEANT for name in names}
    by_all = {"reduce_scatter", "contiguous_gradients", "optimizer", "scheduler"}
    assert conditional | by_all | set(BY_OTHERS) == {f.key[5:] for f in fields() if f.key.startswith("zero.")}
    assert set(ZeroSpec.model_fields) == conditional | by_all | set(BY_OTHERS)


@pytest.mark.parametrize(
    ("sets", "code", "says"),
    [
        (["zero.stage=2", "zero.offload=optimizer", "zero.ratio=0.5"], "offload-needs-stage", "ratio"),
        (["zero.stage=2", "zero.offload=optimizer", "zero.optimizer_device=nvme", "zero.nvme_path=/fast"],
         "offload-needs-stage", "nvme"),
        ([*NVME[:4], "zero.nvme_path="], "nvme-path", "none"),
        ([*NVME[:4], "zero.nvme_path=/usr/share"], "unsafe-path", "system"),
        ([*NVME, "zero.param_buffer_size=10"], "value-range", "buffer"),
        (["zero.stage=2", "zero.scheduler=WarmupLR", "train.max_steps=3", "train.warmup_steps=4"],
         "scheduler-conflict", "longer"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused(planned: Any, sets: list[str], code: str, says: str) -> None:
    plan = planned(*sets)
    problem = named(plan)[f"{code}.{says}"]
    assert (problem.code, problem.severity) == (code, "error") and not plan.ok


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"exists": False}, "missing"),
        ({"exists": True, "writable": False}, "closed"),
        ({"exists": True, "writable": True, "filesystem": "tmpfs"}, "memory"),
        ({"exists": True, "writable": True, "filesystem": "ext4", "free": 1 << 30}, "full"),
    ],
)
def test_the_folder_for_swapping_is_there_writable_on_a_disk_with_room(
    planned: Any, facts: dict[str, Any], says: str
) -> None:
    plan = planned(*NVME, swap=FolderFacts(path="/fast", **facts), model=LARGE)
    assert named(plan)[f"nvme-path.{says}"].field == "zero.nvme_path" and not plan.ok


def test_without_libaio_or_a_compiler_the_remedy_is_told(planned: Any) -> None:
    tools = Toolchain(torch="2", ops={"async_io": OpFacts(compatible=False, why="no libaio")}, compiles=True)
    problem = named(planned(*NVME, toolchain=tools))["offload-toolchain.aio"]
    assert problem.params["why"] == "no libaio" and problem.set == {
        "zero.optimizer_device": "cpu",
        "zero.param_device": "cpu",
    }
    bare = make.host(compiler=None)
    assert "offload-toolchain.optimizer" in named(planned("zero.stage=2", "zero.optimizer=deepspeed", host=bare))


def test_the_gradients_of_the_states_need_room_on_the_disk_too(planned: Any) -> None:
    promise = planned(*NVME, model=LARGE, host=BIG).promise
    ranks = planned(*NVME, model=LARGE, host=BIG).batch.gpus
    fits = promise.nvme_bytes + 4 * 10**9 // ranks  # of each rank: what is promised, and fp32 gradients

    def full(free: int) -> bool:
        swap = FAST.model_copy(update={"free": free})
        return "nvme-path.full" in named(planned(*NVME, model=LARGE, host=BIG, swap=swap))

    assert not full(fits * ranks) and full(fits * ranks - 1)


def test_memory_that_cannot_be_locked_is_told_before_deepspeed_ends_the_rank(planned: Any) -> None:
    few = make.host(lockable=8 << 20)
    problem = named(planned(*NVME, model=LARGE, host=few))["offload-toolchain.locked"]
    assert problem.severity == "error" and problem.params["limit"] == "8.0 MiB"
    for host in (make.host(), make.host(lockable=64 << 30)):
        assert "offload-toolchain.locked" not in named(planned(*NVME, model=LARGE, host=host))
    smaller = make.host(lockable=3 << 30)  # 4 buffers of 10^8 and a tensor's part, in fp32, and 5 of a part
    assert "offload-toolchain.locked" in named(planned(*NVME, model=LARGE, host=smaller))
    assert "offload-toolchain.locked" not in named(
        planned(*NVME, "zero.sub_group_size=1000000", model=LARGE, host=smaller)
    )


def test_states_that_are_swapped_are_updated_in_groups_that_leave_the_memory_free(planned: Any) -> None:
    size = "sub_group_size"
    assert file(planned(*NVME, model=LARGE, host=BIG))["zero_optimization"][size] == 10**8
    in_memory = planned(*NVME[:2], "method.kind=full", model=LARGE, host=BIG)
    assert file(in_memory)["zero_optimization"][size] == 10**9
    assert file(planned(*NVME, "zero.sub_group_size=7", model=LARGE, host=BIG))["zero_optimization"][size] == 7


def test_parameters_that_are_swapped_keep_no_buffer_for_reuse(planned: Any) -> None:
    key = "stage3_max_reuse_distance"
    assert file(planned(*NVME, model=LARGE, host=BIG))["zero_optimization"][key] == 0
    only_states = [*NVME[:3], *NVME[4:]]
    assert file(planned(*only_states, model=LARGE, host=BIG))["zero_optimization"][key] == 10**9
    asked = planned(*NVME, "zero.max_reuse_distance=1000", model=LARGE, host=BIG)
    problem = named(asked)["value-range.reuse"]
    assert problem.params == {"tensors": 10, "buffers": 5} and problem.set == {"zero.max_reuse_distance": 0}
    for enough in ("zero.param_buffers=10", "zero.max_reuse_distance=0"):
        sets = (*NVME, "zero.max_reuse_distance=1000", enough)
        assert "value-range.reuse" not in named(planned(*sets, model=LARGE, host=BIG))


def test_frozen_parameters_are_not_swapped_where_there_are_more_of_them_than_buffers(planned: Any) -> None:
    lora = [*NVME[:5], "method.kind=lora"]
    problem = named(planned(*lora, model=LARGE, host=BIG))["value-range.frozen"]
    assert problem.severity == "error" and problem.set == {"zero.param_device": "cpu"}
    for sets in ((*lora, "zero.param_buffers=10"), (*NVME,), (*NVME[:3], *NVME[4:5], "method.kind=lora")):
        assert "value-range.frozen" not in named(planned(*sets, model=LARGE, host=BIG))


def test_a_run_swaps_to_a_folder_of_its_own_and_the_plan_promises_it(planned: Any) -> None:
    plan = planned(*NVME, model=LARGE, host=BIG)
    zero = file(plan)["zero_optimization"]
    assert zero["offload_optimizer"]["nvme_path"] == zero["offload_param"]["nvme_path"] == "/fast/a-run"
    assert plan.promise is not None and plan.promise.offloaded_bytes == 0
    assert plan.promise.nvme_bytes >= plan.promise.optimizer_bytes
    mixed = planned(*NVME[:2], *NVME[3:], model=LARGE, host=BIG).promise
    assert mixed is not None and mixed.offloaded_bytes == mixed.optimizer_bytes and mixed.nvme_bytes > 0


def test_a_proof_without_a_byte_on_the_disk_is_not_in_effect(planned: Any) -> None:
    from zeroboard.contract.reports import RankProof

    promise = planned(*NVME, model=LARGE, host=BIG).promise
    held = {"parameter_bytes": promise.parameter_bytes, "optimizer_bytes": promise.optimizer_bytes}
    rank = {"host": "h", "device": "cpu", "pid": 1, "engine": "deepspeed", "stage": 3, "gradient_bytes": None,
            "offloaded_bytes": 0, **held}  # fmt: skip

    def verdict(nvme: int) -> tuple[str, str]:
        ranks = tuple(RankProof.model_validate({**rank, "rank": n, "nvme_bytes": nvme}) for n in (0, 1))
        proof = judge_proof(ranks, promise, stage="3", offload="all", trainable_share=1.0)
        return proof.verdict, proof.says

    assert verdict(promise.nvme_bytes)[0] == "in effect"
    assert verdict(0) == ("not in effect", "proof.not-swapped")
    assert verdict(promise.nvme_bytes // 2) == ("partly", "proof.not-swapped")
    assert has("proof.not-swapped", "zh-CN")


def test_what_is_too_small_to_be_swapped_is_promised_in_memory_and_the_proof_says_that_nothing_was(
    planned: Any,
) -> None:
    from zeroboard.contract.reports import RankProof

    small = {"parameters": 10**6, "tensor_sizes": {10**5: 10}}
    plan = planned(*NVME, model=small)
    assert {"ignored-choice.small-states", "ignored-choice.small-tensors"} & set(named(plan)) == {
        "ignored-choice.small-tensors"  # a group of all states is large enough
    }
    promise = plan.promise
    assert promise.nvme_bytes == promise.optimizer_bytes and promise.offloaded_bytes > 0
    params = ["zero.stage=3", "zero.offload=all", "zero.param_device=nvme", "zero.nvme_path=/fast", "method.kind=full"]
    promise = planned(*params, model=small).promise
    assert promise.nvme_bytes == 0 and promise.offloaded_bytes > promise.optimizer_bytes
    rank = {"host": "h", "device": "cpu", "pid": 1, "engine": "deepspeed", "stage": 3, "gradient_bytes": None}
    held = promise.model_dump(include={"parameter_bytes", "optimizer_bytes", "offloaded_bytes"})
    ranks = tuple(RankProof.model_validate({**rank, **held, "rank": n}) for n in (0, 1))
    proof = judge_proof(ranks, promise, stage="3", offload="all", trainable_share=1.0)
    assert (proof.verdict, proof.says) == ("not in effect", "proof.nothing-swapped") and has(proof.says, "zh-CN")


def test_parameters_that_are_to_stay_in_memory_are_not_promised_on_the_disk(planned: Any) -> None:
    stay = planned(*NVME, "zero.param_in_cpu=2000000000", model=LARGE, host=BIG).promise
    gone = planned(*NVME, model=LARGE, host=BIG).promise
    assert stay.nvme_bytes == stay.optimizer_bytes < gone.nvme_bytes
    assert stay.offloaded_bytes == gone.nvme_bytes - stay.nvme_bytes and gone.offloaded_bytes == 0


def test_a_ratio_moves_about_its_share_of_the_states(planned: Any) -> None:
    sets = ["zero.stage=3", "zero.offload=optimizer", "zero.ratio=0.5", "zero.sub_group_size=200", "method.kind=full"]
    plan = planned(*sets)
    assert not [p for p in plan.problems if p.field == "zero.ratio"]
    assert plan.promise is not None and 0.4 < plan.promise.offloaded_bytes / plan.promise.optimizer_bytes <= 0.5
    assert file(plan)["zero_optimization"]["offload_optimizer"]["ratio"] == 0.5


@pytest.mark.parametrize("scheduler", ["WarmupLR", "WarmupDecayLR", "WarmupCosineLR"])
def test_until_the_data_is_tokenised_the_file_waits_for_its_steps_which_is_told(planned: Any, scheduler: str) -> None:
    plan = planned("zero.stage=2", f"zero.scheduler={scheduler}", run_id=None)
    assert named(plan)["scheduler-conflict.later"].severity == "warning"
    assert plan.ok and plan.argv and set(plan.files) == {"spec.yaml"}
    with pytest.raises(ValueError, match="steps"):  # a run's folder is never written without it
        planned("zero.stage=2", f"zero.scheduler={scheduler}")


@pytest.mark.parametrize("tokens", [True, False])
def test_deepspeeds_schedules_are_written_once_their_steps_are_known(planned: Any, tokens: bool) -> None:
    known = [] if tokens else ["train.max_steps=9"]
    plan = planned("zero.stage=2", "zero.scheduler=WarmupCosineLR", "zero.optimizer=deepspeed", *known, tokens=tokens)
    assert plan.ok and plan.resolved is not None
    params = file(plan)["scheduler"]["params"]
    assert params["total_num_steps"] == plan.resolved.steps and params["warmup_num_steps"] >= 1
    assert file(plan)["optimizer"]["params"]["lr"] == 2e-4


def test_small_tensors_are_kept_whole_up_to_the_threshold_that_was_chosen(planned: Any) -> None:
    none, all_ = (planned("zero.stage=3", f"zero.persistence_threshold={n}").promise for n in (0, 10**9))
    assert none.parameter_bytes < all_.parameter_bytes / 1.4


@pytest.mark.parametrize("text", ["devices.count=0", "data.max_length=0", "zero.bucket_size=10000000000000000000000",
                                  "zero.ratio=0", "zero.ratio=1e400", "train.workers=-1", "zero.stage=9"])  # fmt: skip
def test_absurd_numbers_are_problems(text: str) -> None:
    from zeroboard.planning.specs import parse_spec, with_sets

    spec, problems = parse_spec(with_sets({"model": {"path": "m"}, "data": {"path": "d"}}, [text]))
    assert spec is None and {p.code for p in problems} <= {"value-range", "wrong-type"} and problems


def test_a_model_of_more_parameters_than_there_are_atoms_is_no_overflow(planned: Any) -> None:
    plan = planned(*NVME, model={"parameters": 10**30, "tensor_sizes": {10**28: 100}})
    assert {"nvme-path", "disk-space"} <= {p.code for p in plan.problems if p.severity == "error"}
