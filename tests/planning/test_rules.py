"""Each rule names what stands in the way, and keeps quiet where nothing does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.planning import facts as make
from zeroboard.contract.host import GpuFacts, HostFacts
from zeroboard.contract.plan import Plan
from zeroboard.contract.problems import Problem
from zeroboard.contract.reports import DataProblem
from zeroboard.messages import LANGUAGES, has, say
from zeroboard.paths import Paths
from zeroboard.planning.planner import make_plan


@pytest.fixture
def planned(tmp_path: Path) -> Any:
    """Makes a plan of the tiny model; keywords replace the host, or change facts of model, data and tokens."""

    def plan(
        *sets: str, host: HostFacts | None = None, model: Any = None, data: Any = None, tokens: Any = None
    ) -> Plan:
        return make_plan(
            make.spec(*sets),
            host=host or make.host(),
            paths=Paths(tmp_path / "cache"),
            model=make.model(tmp_path / "m", **(model or {})),
            data=make.data(tmp_path / "d.jsonl", **(data or {})),
            tokens=make.tokens(**tokens) if tokens is not None else None,
        )

    return plan


def named(plan: Plan) -> dict[str, Problem]:
    """Sentence key → problem; every sentence and remedy must be there, filled to the last place."""
    for problem in plan.problems:
        for language in LANGUAGES:
            for key in (problem.message_key, problem.remedy_key):
                assert has(key, language), key
                assert "{" not in say(key, language, **problem.params), key
    return {problem.message_key.removeprefix("problem."): problem for problem in plan.problems}


def test_a_good_wish_has_no_problem(planned: Any) -> None:
    for sets in ([], ["zero.stage=3", "zero.offload=all"], ["method.kind=full", "zero.stage=1"]):
        assert planned(*sets).problems == () and planned(*sets).ok


@pytest.mark.parametrize(
    ("stage", "offload", "mends"),
    [("none", "optimizer", "2"), ("none", "all", "3"), ("1", "all", "3"), ("2", "all", "3")],
)
def test_offload_without_its_stage_is_refused_with_the_stage_that_mends_it(
    planned: Any, stage: str, offload: str, mends: str
) -> None:
    plan = planned(f"zero.stage={stage}", f"zero.offload={offload}")
    (problem,) = [p for p in plan.problems if p.severity == "error"]
    assert problem.code == "offload-needs-stage" and problem.set == {"zero.stage": mends}
    assert plan.resolved is None and plan.argv == ()
    named(plan)
    assert planned(f"zero.stage={mends}", f"zero.offload={offload}").ok


def test_offload_without_a_compiler_is_refused_and_plain_stages_are_not(planned: Any) -> None:
    bare = make.host(compiler=None)
    assert "offload-toolchain" in named(planned("zero.stage=2", "zero.offload=optimizer", host=bare))
    assert planned("zero.stage=3", host=bare).ok


def test_a_stage_with_nobody_to_share_with_is_told(planned: Any) -> None:
    plan = planned("zero.stage=2", "devices.count=1")
    assert named(plan)["stage-unneeded"].severity == "warning" and plan.ok
    assert not planned("zero.stage=2", "zero.offload=optimizer", "devices.count=1").problems


def test_precision_follows_the_device(planned: Any) -> None:
    assert planned().resolved.dtype == "fp32"
    assert named(planned("train.precision=fp16"))["precision-unsupported.cpu-fp16"].severity == "error"
    slow = planned("train.precision=bf16")
    assert named(slow)["precision-unsupported.cpu-bf16"].severity == "warning" and slow.resolved.dtype == "bf16"
    new, old = make.host(2), make.host(make.gpus(2, compute_capability="7.5"))
    assert planned(host=new).resolved.dtype == "bf16"
    assert planned(host=old).resolved.dtype == "fp16"
    assert "precision-unsupported.bf16" in named(planned("train.precision=bf16", host=old))
    unknown = make.host(make.gpus(2, compute_capability=None))
    assert planned(host=unknown).resolved.dtype == "fp16"
    assert planned("train.precision=bf16", host=unknown).ok


def test_bf16_weights_trained_in_fp16_are_told(planned: Any) -> None:
    plan = planned("train.precision=fp16", host=make.host(1), model={"dtype": "bfloat16"})
    assert "precision-unsupported.fp16-on-bf16" in named(plan) and plan.ok


def test_more_ranks_than_there_are_devices_are_refused(planned: Any) -> None:
    cpu = named(planned("devices.count=3"))["gpu-unavailable.cpu"]
    assert cpu.set == {"devices.count": 2}
    cuda = named(planned("devices.count=5", host=make.host(4)))["gpu-unavailable.count"]
    assert cuda.params == {"asked": 5, "found": 4}
    chosen = named(planned("devices.count=2", "devices.gpus=[GPU-1]", host=make.host(4)))["gpu-unavailable.count"]
    assert chosen.params == {"asked": 2, "found": 1}


def test_gpus_that_are_not_there_are_refused_by_name(planned: Any) -> None:
    assert (
        named(planned("devices.gpus=[GPU-9]", host=make.host(2)))["gpu-unavailable.unknown"].params["uuid"] == "GPU-9"
    )
    assert "gpu-unavailable.none" in named(planned("devices.gpus=[GPU-9]"))
    cards = make.host(2).gpus
    lost = make.host((cards[0], cards[1].model_copy(update={"state": "lost"})))
    assert "gpu-unavailable.lost" in named(planned("devices.gpus=[GPU-1]", host=lost))
    assert planned(host=lost).resolved.gpus == ("GPU-0",)


def test_a_busy_device_is_told_and_a_free_one_is_taken_instead(planned: Any) -> None:
    held = make.host(2, held={"GPU-0": "run-a"})
    assert planned(host=held).resolved.gpus == ("GPU-1",) and not planned(host=held).problems
    both = planned("devices.count=2", host=held)
    assert named(both)["gpu-busy"].params == {"device": "GPU-0", "run": "run-a"} and both.ok
    assert named(planned(host=make.host(held={"cpu": "run-b"})))["gpu-busy.cpu"].severity == "warning"


def test_small_shared_memory_matters_to_several_gpus_only(planned: Any) -> None:
    assert "shm-too-small" in named(planned(host=make.host(2, shm_total=64 << 20)))
    assert not planned(host=make.host(1, shm_total=64 << 20)).problems
    assert not planned(host=make.host(shm_total=64 << 20)).problems


def test_a_full_disk_is_refused_before_anything_is_written(planned: Any) -> None:
    small = make.host(disk_free=1 << 20)
    often = ("method.kind=full", "train.save_every=1", "train.keep_checkpoints=3")
    assert "disk-space" in named(planned(*often, host=small))
    assert planned(host=make.host(disk_free=10 << 20)).ok


def test_absurd_sizes_are_a_problem_and_no_overflow(planned: Any) -> None:
    plan = planned("method.kind=full", model={"parameters": 10**30}, tokens={"rows": 10**30})
    assert "disk-space" in named(plan) and not plan.ok
    assert planned("train.micro_batch=4096", "train.accumulation=65536").batch.total == 4096 * 65536 * 2


def test_data_without_a_usable_row_is_refused_with_its_reasons(planned: Any) -> None:
    reason = DataProblem(
        code="empty-output",
        severity="error",
        count=24,
        rows=(1, 2),
        params={"count": 24, "rows": "1, 2", "details": "-"},
    )
    plan = planned(data={"usable": 0, "refused": 24, "problems": (reason,)})
    assert [p.message_key for p in plan.problems] == ["problem.data-refused", "data.empty-output"]
    assert {p.code for p in plan.problems} == {"data-refused"} and not plan.ok
    named(plan)


def test_many_refused_rows_have_to_be_accepted_and_that_is_kept_in_the_spec(planned: Any) -> None:
    reason = DataProblem(
        code="empty-output", severity="error", count=4, rows=(1, 2), params={"count": 4, "rows": "1, 2"}
    )
    data = {"usable": 20, "refused": 4, "problems": (reason,)}
    asked = planned(data=data)
    problem = named(asked)["data-refused.many"]
    assert problem.severity == "error" and not asked.ok
    assert problem.set == {"data.accept_refused": 0.167}, "a sixth, rounded up"
    accepted = planned("data.accept_refused=0.167", data=data)
    assert named(accepted)["data-refused.some"].severity == "warning" and accepted.ok
    assert "accept_refused: 0.167" in accepted.files["spec.yaml"]


def test_nothing_left_to_learn_is_refused(planned: Any) -> None:
    assert not planned(tokens={"rows": 0, "without_trainable": 24}).ok
    left = planned(tokens={"rows": 20, "without_trainable": 4})
    assert named(left)["data-refused.left-out"].params["count"] == 4 and left.ok


def test_a_models_own_code_runs_only_when_trusted(planned: Any) -> None:
    assert named(planned(model={"remote_code": True}))["remote-code"].set == {"model.trust_remote_code": True}
    assert planned("model.trust_remote_code=true", model={"remote_code": True}).ok


def test_a_missing_template_is_told_and_chatml_chosen(planned: Any) -> None:
    plan = planned(model={"has_template": False})
    assert named(plan)["template-missing"].severity == "warning"
    assert {d.field: d.value for d in plan.decisions}["template"] == "chatml"


def test_lengths_beyond_the_model_are_told(planned: Any) -> None:
    plan = planned("data.max_length=9999", model={"context_length": 512})
    assert named(plan)["value-range.context"].set == {"data.max_length": 512} and plan.ok


def test_lora_targets_that_the_model_lacks_are_refused(planned: Any) -> None:
    problem = named(planned("method.targets=q_proj,query"))["value-range.targets"]
    assert problem.params["names"] == "query" and "k_proj" in str(problem.params["there"])
    assert planned("method.targets=q_proj, v_proj").ok
    assert "value-range.targets" in named(planned("method.targets=,"))


def test_paths_into_the_operating_system_are_refused(planned: Any) -> None:
    for path in ("/proc/self/environ", "/dev/zero", "/sys/x", "/tmp/../proc/1/environ"):
        found = [p for p in planned(f"data.path={path}").problems if p.code == "unsafe-path"]
        assert [p.field for p in found] == ["data.path"], path
    assert planned("data.path=/devices/x").ok and planned("data.path=/dev/shm/data.jsonl").ok


@pytest.mark.parametrize(
    ("sets", "says", "field"),
    [
        (["zero.gather_on_save=false", "zero.stage=2"], "gather", "zero.gather_on_save"),
        (["zero.gather_on_save=false", "zero.stage=3"], "gather-lora", "zero.gather_on_save"),
        (["zero.overlap_comm=true"], "stage-none", "zero.overlap_comm"),
        (["zero.bucket_size=64"], "stage-none", "zero.bucket_size"),
        (["zero.bucket_size=100000000", "zero.stage=2"], "bucket", "zero.bucket_size"),
        (["method.kind=full", "method.rank=16"], "lora", "method.rank"),
        (["method.kind=full", "method.targets=q_proj"], "lora", "method.targets"),
        (["train.keep_checkpoints=5"], "checkpoints", "train.keep_checkpoints"),
        (["train.evaluate_every=5"], "evaluation", "train.evaluate_every"),
    ],
)
def test_a_choice_without_effect_is_told(planned: Any, sets: list[str], says: str, field: str) -> None:
    plan = planned(*sets)
    problem = named(plan)[f"ignored-choice.{says}"]
    assert (problem.field, problem.severity) == (field, "warning") and plan.ok


def test_weights_that_are_not_gathered_are_told(planned: Any) -> None:
    plan = planned("zero.stage=3", "method.kind=full", "zero.gather_on_save=false")
    assert set(named(plan)) == {"gather-disabled"}


def test_everything_is_told_at_once_errors_first(planned: Any) -> None:
    plan = planned(
        "zero.offload=all",
        "train.precision=fp16",
        "devices.count=9",
        "data.path=/proc/x",
        "train.keep_checkpoints=9",
        host=make.host(compiler=None),
        model={"remote_code": True, "has_template": False},
    )
    assert {p.code for p in plan.problems if p.severity == "error"} == {
        "offload-needs-stage",
        "offload-toolchain",
        "precision-unsupported",
        "gpu-unavailable",
        "remote-code",
        "unsafe-path",
    }
    severities = [p.severity for p in plan.problems]
    assert severities == sorted(severities) and "warning" in severities
    named(plan)


def test_a_gpu_without_a_name_is_not_used(planned: Any) -> None:
    nameless = make.host((GpuFacts(index=0, uuid=None, state="partly"),))
    assert planned(host=nameless).resolved.device == "cpu"


def test_rows_that_are_cut_are_told_with_what_they_lose(planned: Any) -> None:
    cut = planned(tokens={"rows": 24, "truncated": 3, "end_token_lost": 2, "longest": 900})
    problem = named(cut)["data-refused.truncated"]
    assert problem.severity == "warning" and cut.ok
    assert (problem.params["count"], problem.params["lost"], problem.params["longest"]) == (3, 2, 900)
    assert "data-refused.truncated" not in named(planned(tokens={"rows": 24, "truncated": 0}))


def test_stage_3_refuses_whole_modules_and_quantised_weights_of_another_type(planned: Any) -> None:
    whole = named(planned("zero.stage=3", "method.targets=q_proj,lm_head"))
    assert (
        whole["stage3-modules-to-save"].set == {"method.targets": "all-linear"} and "value-range.targets" not in whole
    )
    assert "value-range.targets" in named(planned("zero.stage=2", "method.targets=q_proj,lm_head"))
    packed = {"quantized": "bitsandbytes"}
    assert named(planned("zero.stage=3", model=packed))["stage3-quantized"].params["storage"] == "uint8"
    assert "stage3-quantized" not in named(planned("zero.stage=3", model={**packed, "storage": "float32"}))
    assert "stage3-quantized" not in named(planned("zero.stage=2", model=packed))
