"""Trainings of the tiny Llama in bf16 on real GPUs, with the proof.

Written without a GPU at hand and never run on one so far: what stands here is what is expected, and no claim that it
passes. The same engine, launcher and judgement are held on two CPU ranks by `tests/engine/test_training.py`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.engine.launch import HOST, events, logs, plan_run, start
from tests.tiny import tiny_data
from zeroboard.contract.events import EvalEvent, MemoryEvent, ProofEvent, RankEvent, StepEvent
from zeroboard.contract.spec import (
    DataSpec,
    DeviceSpec,
    MethodKind,
    MethodSpec,
    ModelSpec,
    Offload,
    RunSpec,
    Stage,
    TrainSpec,
    ZeroSpec,
)
from zeroboard.monitor.nvml import probe
from zeroboard.zero.promise import judge_proof

pytestmark = [pytest.mark.gpu, pytest.mark.train]

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="CPU offload compiles DeepSpeed's Adam: no g++")


@pytest.mark.parametrize("kind", ["lora", "full"])
@pytest.mark.parametrize(
    ("stage", "offload"),
    [
        ("none", "none"),
        ("2", "none"),
        ("3", "none"),
        pytest.param("2", "optimizer", marks=needs_compiler),
        pytest.param("3", "all", marks=needs_compiler),
    ],
)
def test_stages_are_in_effect_on_gpus(
    tmp_path: Path, tiny_model_folder: Path, gpus: int, stage: Stage, offload: Offload, kind: MethodKind
) -> None:
    found = probe().gpus
    ranks = min(2, gpus, len(found))
    spec = RunSpec(
        model=ModelSpec(path=str(tiny_model_folder)),
        data=DataSpec(path=str(tiny_data(tmp_path / "data.jsonl", rows=32)), max_length=128, evaluation=0.25),
        method=MethodSpec(kind=kind),
        train=TrainSpec(learning_rate=0.01, epochs=2, micro_batch=2, accumulation=2, precision="bf16"),
        zero=ZeroSpec(stage=stage, offload=offload),
        devices=DeviceSpec(count=ranks),
    )
    run, plan = plan_run(tmp_path, spec, host=HOST.model_copy(update={"gpus": found}))
    assert plan.resolved is not None
    assert (plan.resolved.device, plan.resolved.backend, plan.resolved.dtype) == ("cuda", "nccl", "bf16")
    assert start(run, plan).wait(timeout=280) == 0, logs(run)
    said = events(run)
    losses = [event.loss for event in said if isinstance(event, StepEvent)]
    assert losses[0] is not None and losses[-1] is not None and losses[-1] < losses[0]
    there = {event.rank: event.device for event in said if isinstance(event, RankEvent)}
    assert there == dict(enumerate(plan.resolved.gpus))
    peaks = {event.rank: event.peak for event in said if isinstance(event, MemoryEvent)}
    assert set(peaks) == set(range(ranks)) and all(0 < peak < 8 << 30 for peak in peaks.values())
    assert all(event.loss is not None for event in said if isinstance(event, EvalEvent))
    (proof,) = [event for event in said if isinstance(event, ProofEvent)]
    judged = judge_proof(
        proof.ranks, plan.promise, stage=stage, offload=offload, trainable_share=None, planned_ranks=ranks
    )
    shares = ranks > 1 or stage == "none" or offload != "none"  # one rank has nobody to share with
    assert judged.verdict == ("in effect" if shares else "partly"), judged
    assert all((rank.offloaded_bytes > 0) == (offload != "none") for rank in proof.ranks)
