"""Real trainings of the tiny Llama in two ranks, through the real plan and the real launcher."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.engine.launch import events, logs, plan_run, start, wait
from tests.tiny import tiny_data, tiny_model
from zeroboard.checkpoints.verify import make_report, verify_files
from zeroboard.contract.beats import read_beats
from zeroboard.contract.events import (
    EndEvent,
    ErrorEvent,
    EvalEvent,
    Event,
    MemoryEvent,
    ProofEvent,
    RankEvent,
    SaveEvent,
    StepEvent,
    TrainEvent,
)
from zeroboard.contract.plan import Plan
from zeroboard.contract.requests import StopRequest
from zeroboard.contract.spec import (
    DataSpec,
    DeviceSpec,
    MethodSpec,
    ModelSpec,
    Offload,
    RunSpec,
    Stage,
    TrainSpec,
    ZeroSpec,
)
from zeroboard.engine.loss import IGNORED, Collator, learned_loss
from zeroboard.engine.store import TokenData
from zeroboard.files import write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.services import prepare
from zeroboard.zero.promise import judge_proof

pytestmark = pytest.mark.train

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="CPU offload compiles DeepSpeed's Adam: no g++")

long = pytest.mark.long

ZERO = [
    pytest.param("none", "none", "lora"),
    pytest.param("none", "none", "full", marks=long),
    pytest.param("1", "none", "lora", marks=long),
    pytest.param("1", "none", "full"),
    pytest.param("2", "none", "lora", marks=long),
    pytest.param("2", "none", "full", marks=long),
    pytest.param("3", "none", "lora"),
    pytest.param("3", "none", "full", marks=long),
    pytest.param("2", "optimizer", "lora", marks=(needs_compiler, long)),
    pytest.param("2", "optimizer", "full", marks=needs_compiler),
    pytest.param("3", "all", "lora", marks=(needs_compiler, long)),
    pytest.param("3", "all", "full", marks=needs_compiler),
]
"""Stage, offload and method: every one is tried by `make long`, each value of each by `make test`."""


def spec_for(
    model: Path,
    data: Path,
    *,
    kind: str = "lora",
    stage: str = "none",
    offload: str = "none",
    evaluation: float = 0.0,
    **train: Any,
) -> RunSpec:
    settings: dict[str, Any] = {"learning_rate": 0.01, "epochs": 2, "micro_batch": 2, "accumulation": 2} | train
    return RunSpec(
        model=ModelSpec(path=str(model)),
        data=DataSpec(path=str(data), max_length=128, evaluation=evaluation),
        method=MethodSpec.model_validate({"kind": kind}),
        train=TrainSpec.model_validate(settings),
        zero=ZeroSpec.model_validate({"stage": stage, "offload": offload}),
        devices=DeviceSpec(count=2),
    )


@pytest.fixture(scope="module")
def evaluated_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """32 rows that all differ: 24 to train on, and 8 that are held out."""
    return tiny_data(tmp_path_factory.mktemp("rows") / "data.jsonl", rows=32)


def run_through(root: Path, spec: RunSpec) -> tuple[RunPaths, Plan]:
    run, plan = plan_run(root, spec)
    code = wait(start(run, plan), run)
    assert code == 0, logs(run)
    return run, plan


def reloaded(run: RunPaths, base: Path, kind: str) -> torch.nn.Module:
    if kind == "full":
        return AutoModelForCausalLM.from_pretrained(run.model, dtype=torch.float32)  # type: ignore[no-any-return]
    plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    return PeftModel.from_pretrained(plain, run.model)  # type: ignore[no-any-return]


def last_of_rank_0(said: list[Event]) -> Event:
    """What rank 0 said last. Another rank may write its own last word, how much memory it held, after that."""
    return [event for event in said if event.rank == 0][-1]


@pytest.mark.parametrize(("stage", "offload", "kind"), ZERO)
def test_two_ranks_train_prove_and_leave_a_result_that_works(
    tmp_path: Path, tiny_model_folder: Path, evaluated_data: Path, stage: str, offload: str, kind: str
) -> None:
    spec = spec_for(
        tiny_model_folder, evaluated_data, kind=kind, stage=stage, offload=offload, evaluation=0.25, save_every=4
    )
    run, plan = run_through(tmp_path, spec)
    said = events(run)
    assert not [event for event in said if isinstance(event, ErrorEvent)]
    for rank in (0, 1):
        numbers = [event.seq for event in said if event.rank == rank]
        assert numbers == list(range(1, len(numbers) + 1))
    assert sorted(event.rank for event in said if isinstance(event, RankEvent)) == [0, 1]

    (train,) = [event for event in said if isinstance(event, TrainEvent)]
    steps = [event for event in said if isinstance(event, StepEvent)]
    assert [event.step for event in steps] == list(range(1, train.steps + 1))
    losses = [event.loss for event in steps]
    assert losses[-1] < losses[0] - 0.1, losses
    assert all(event.tokens_per_s and event.step_time > 0 for event in steps)

    (proof,) = [event for event in said if isinstance(event, ProofEvent)]
    assert [(rank.rank, rank.stage) for rank in proof.ranks] == [
        (r, 0 if stage == "none" else int(stage)) for r in (0, 1)
    ]
    share = train.trainable_parameters / train.parameters
    judged = judge_proof(proof.ranks, plan.promise, stage=stage, offload=offload, trainable_share=share)  # type: ignore[arg-type]
    assert judged.verdict == "in effect", judged
    assert [rank.frozen_released for rank in proof.ranks] == [True if (stage, kind) == ("3", "lora") else None] * 2
    for rank in (0, 1):
        peaks = [event.peak for event in said if isinstance(event, MemoryEvent) and event.rank == rank]
        assert peaks == sorted(set(peaks)) and peaks[0] >= proof.ranks[rank].parameter_bytes

    saves = [(event.path, event.done) for event in said if isinstance(event, SaveEvent)]
    assert saves[-2:] == [("model", False), ("model", True)]
    assert all(done == (index % 2 == 1) for index, (_, done) in enumerate(saves))
    assert {path.name for path in run.checkpoints.iterdir()} == {"checkpoint-4", "checkpoint-6"}
    end = last_of_rank_0(said)
    assert isinstance(end, EndEvent) and (end.reason, end.step) == ("completed", train.steps)

    for file in (*run.model.rglob("*"), *run.checkpoints.rglob("*")):
        assert file.is_dir() or stat.S_IMODE(file.stat().st_mode) == 0o644, file
    if kind == "lora":
        check_adapter(run.model, tiny_model_folder)
        check_adapter(run.checkpoints / "checkpoint-4", tiny_model_folder)
    model = reloaded(run, tiny_model_folder, kind)
    tokenizer = AutoTokenizer.from_pretrained(run.model)
    assert tokenizer.chat_template
    text = tokenizer.apply_chat_template([{"role": "user", "content": "Is offload sharded?"}], tokenize=False)
    ids = torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])
    base = AutoModelForCausalLM.from_pretrained(tiny_model_folder, dtype=torch.float32)
    with torch.no_grad():
        assert (model(ids).logits - base(ids).logits).abs().max() > 0.01
    evaluations = [event for event in said if isinstance(event, EvalEvent)]
    assert [(event.step, event.epoch, event.rows) for event in evaluations] == [(3, 1.0, 8), (6, 2.0, 8)]
    first, last = (event.loss for event in evaluations)
    assert first is not None and last is not None and last < first
    assert plan.resolved is not None
    assert last == pytest.approx(loss_of(model, tmp_path / "tokens" / plan.resolved.tokens_key), rel=1e-4)


def loss_of(model: torch.nn.Module, tokens: Path) -> float:
    """The loss of a result over the rows that were held out, here in one process."""
    held = TokenData(tokens, "evaluation")
    total, learned = 0.0, 0
    with torch.no_grad():
        for row in range(len(held)):
            batch = Collator(0)([held[row]])
            total += float(learned_loss(model, batch, 1, keeps_positions=False))
            learned += int((batch["labels"][:, 1:] != IGNORED).sum())
    return total / learned


def check_adapter(folder: Path, base: Path) -> None:
    """Every matrix has its shape and none of the B matrices is still zero."""
    found = load_file(folder / "adapter_model.safetensors")
    assert len(found) == 2 * 2 * 7  # A and B, two layers, seven linear layers each
    for name, tensor in found.items():
        assert 8 in tensor.shape and tensor.numel() > 8, (name, tensor.shape)
        assert tensor.abs().max() > 0, name
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(base)


@pytest.mark.parametrize(
    ("stage", "offload", "ignored", "says"),
    [
        pytest.param("2", "none", "everything", "proof.other-stage", marks=long),
        ("3", "none", "stage", "proof.other-stage"),
        pytest.param("2", "optimizer", "offload", "proof.not-offloaded", marks=(needs_compiler, long)),
    ],
)
def test_a_configuration_that_is_ignored_is_not_in_effect(
    tmp_path: Path,
    tiny_model_folder: Path,
    tiny_data_file: Path,
    stage: Stage,
    offload: Offload,
    ignored: str,
    says: str,
) -> None:
    spec = spec_for(tiny_model_folder, tiny_data_file, stage=stage, offload=offload, max_steps=1)
    run, plan = plan_run(tmp_path, spec)
    assert wait(start(run, plan, module="tests.engine.ignoring", IGNORING=ignored), run) == 0, logs(run)
    (proof,) = [event for event in events(run) if isinstance(event, ProofEvent)]
    judged = judge_proof(proof.ranks, plan.promise, stage=stage, offload=offload, trainable_share=0.1)
    assert (judged.verdict, judged.says) == ("not in effect", says), judged


@long
def test_neither_sharding_nor_evaluating_changes_the_training(
    tmp_path: Path, tiny_model_folder: Path, evaluated_data: Path
) -> None:
    curves = []
    for stage, micro, accumulation, every in (("none", 2, 2, 2), ("3", 1, 4, 50)):
        spec = spec_for(
            tiny_model_folder,
            evaluated_data,
            kind="full",
            stage=stage,
            evaluation=0.25,
            evaluate_every=every,
            micro_batch=micro,
            accumulation=accumulation,
        )
        run, _ = run_through(tmp_path / stage, spec)
        said = events(run)
        curves.append([event.loss for event in said if isinstance(event, StepEvent)])
        evaluated = [event.step for event in said if isinstance(event, EvalEvent)]
        assert evaluated == [step for step in range(1, 7) if step % every == 0 or step == 6]
    # both splits put the same eight samples into each step, so learned tokens, passes and ranks must weigh alike
    assert curves[0] == pytest.approx(curves[1], rel=0.02)


@long
def test_without_gathering_a_full_stage_3_leaves_whole_shards_and_says_so(
    tmp_path: Path, tiny_model_folder: Path, tiny_data_file: Path
) -> None:
    spec = spec_for(tiny_model_folder, tiny_data_file, kind="full", stage="3")
    spec = spec.model_copy(update={"zero": ZeroSpec(stage="3", gather_on_save=False)})
    run, plan = run_through(tmp_path, spec)
    assert [problem.code for problem in plan.problems] == ["gather-disabled"]
    (end,) = [event for event in events(run) if isinstance(event, EndEvent)]
    assert end.reason == "completed"
    report = make_report(run.model, verify_files(run.model))
    assert (report.kind, report.verdict) == ("zero-checkpoint", "pass"), report
    assert (report.facts["stage"], report.facts["world_size"]) == (3, 2)
    assert {"config.json", "tokenizer.json", "latest"} <= {path.name for path in run.model.iterdir()}


@long
def test_tied_weights_checkpointed_activations_and_a_constant_rate(tmp_path: Path, tiny_data_file: Path) -> None:
    base = tiny_model(tmp_path / "tied", tied=True, template=None)
    spec = spec_for(
        base, tiny_data_file, kind="full", stage="3", schedule="constant", activation_checkpointing=True, log_every=2
    )
    run, _ = run_through(tmp_path / "cache", spec)
    steps = [event for event in events(run) if isinstance(event, StepEvent)]
    assert [event.step for event in steps] == [2, 4, 6]
    assert steps[-1].learning_rate == pytest.approx(0.01)
    found = load_file(run.model / "model.safetensors")
    assert ("lm_head.weight" in found) is False
    assert all(tensor.numel() for tensor in found.values())
    config = json.loads((run.model / "config.json").read_text())
    assert config["tie_word_embeddings"] is True and config["use_cache"] is True
    assert "<|im_start|>" in (run.model / "chat_template.jinja").read_text()
    AutoModelForCausalLM.from_pretrained(run.model)


@long
@needs_compiler
def test_deepspeeds_own_optimizer_and_schedule_train_as_the_file_says(
    tmp_path: Path, tiny_model_folder: Path, tiny_data_file: Path
) -> None:
    """With workers and sizes of one's own, and steps that the first start counts: DeepSpeed and the Trainer agree."""
    spec = spec_for(tiny_model_folder, tiny_data_file, kind="full", epochs=2, warmup_steps=3, workers=1,
                    weight_decay=0.1, adam_beta2=0.95, adam_epsilon=1e-6)  # fmt: skip
    chosen = {"optimizer": "deepspeed", "scheduler": "WarmupDecayLR", "warmup_curve": "linear", "bucket_size": 5000,
              "reduce_scatter": False, "round_robin_gradients": True}  # fmt: skip
    zero = ZeroSpec.model_validate({"stage": "2", "offload": "optimizer", **chosen})
    plan = prepare.prepare(Paths(tmp_path), spec.model_copy(update={"zero": zero}))
    assert plan.resolved is not None
    run, total = Paths(tmp_path).run(plan.run_id or ""), plan.resolved.steps
    assert json.loads(plan.files["ds_z2_offload_config.json"])["scheduler"]["params"]["total_num_steps"] == total
    assert wait(start(run, plan), run) == 0, logs(run)
    steps = [event for event in events(run) if isinstance(event, StepEvent)]
    assert len(steps) == total and steps[-1].loss < steps[0].loss
    rates = [event.learning_rate for event in steps]
    assert max(rates) <= 0.01 and rates == sorted(rates[:3]) + sorted(rates[3:], reverse=True)
    (found,) = [event for event in events(run) if isinstance(event, ProofEvent)]
    # a gradient larger than the small bucket is kept beside it, so of the proof only the states are compared
    assert plan.promise is not None
    for rank in found.ranks:
        assert rank.optimizer_bytes == pytest.approx(plan.promise.optimizer_bytes, rel=0.05)
        assert rank.offloaded_bytes == rank.optimizer_bytes


def stacks_are_written_while_it_goes_on(run: RunPaths) -> None:
    beats = read_beats(run)
    assert [beat.rank for beat in beats] == [0, 1]
    before = len(events(run))
    for beat in beats:
        os.kill(beat.pid, signal.SIGUSR1)
    deadline = time.monotonic() + 30
    while len(events(run)) < before + 3 or not all(
        "Current thread" in log and "(most recent call first)" in log and "_inner_training_loop" in log
        for log in (run.rank_log(rank).read_text() for rank in (0, 1))
    ):
        assert time.monotonic() < deadline, logs(run)
        time.sleep(0.1)


def a_rank_that_is_held_up_shows_in_the_beats(run: RunPaths) -> None:
    held = read_beats(run)[1].pid
    os.kill(held, signal.SIGSTOP)
    try:
        time.sleep(1.5)  # a beat after the last move
        one, time_of_one = read_beats(run)[0], read_beats(run)[1].time
        time.sleep(1.5)
        waiting, stopped = read_beats(run)
    finally:
        os.kill(held, signal.SIGCONT)
    assert stopped.time == time_of_one and stopped.moves <= waiting.moves
    assert (waiting.moves, waiting.moved, waiting.step) == (one.moves, one.moved, one.step) and one.step > 0


@pytest.mark.parametrize("discard", [False, True])
def test_a_stop_is_agreed_on_and_saves_or_discards(
    tmp_path: Path, tiny_model_folder: Path, tiny_data_file: Path, discard: bool
) -> None:
    run, plan = plan_run(tmp_path, spec_for(tiny_model_folder, tiny_data_file, stage="2", epochs=5000))
    process = start(run, plan)
    try:
        deadline = time.monotonic() + 120
        while not any(isinstance(event, StepEvent) for event in events(run)):
            assert process.poll() is None and time.monotonic() < deadline, logs(run)
            time.sleep(0.2)
        if not discard:  # a long training that is there anyway
            stacks_are_written_while_it_goes_on(run)
            a_rank_that_is_held_up_shows_in_the_beats(run)
        request = StopRequest(discard=discard, time=time.time())
        write_atomic(run.stop_request, request.model_dump_json())
        assert process.wait(timeout=60) == 0, logs(run)
    finally:
        process.kill()
    end = last_of_rank_0(events(run))
    assert isinstance(end, EndEvent) and end.reason == ("discarded" if discard else "stopped")
    assert run.model.exists() is not discard
    kept = [path.name for path in run.checkpoints.iterdir()] if run.checkpoints.exists() else []
    assert kept == ([] if discard else [f"checkpoint-{end.step}"])


def test_a_rank_that_dies_tells_its_exception(tmp_path: Path, tiny_model_folder: Path, tiny_data_file: Path) -> None:
    run, plan = plan_run(tmp_path, spec_for(tiny_model_folder, tiny_data_file, stage="2"))
    write_atomic(run.folder / "ds_z2_config.json", "{}")
    assert start(run, plan).wait(timeout=120) != 0
    said = [event for event in events(run) if isinstance(event, ErrorEvent)]
    assert {event.type for event in said} == {"BrokenFile"}
    assert "planned_config" in said[0].traceback
    assert "BrokenFile" in run.rank_log(said[0].rank).read_text()


@pytest.mark.parametrize("stage", ["none", pytest.param("3", marks=long)])
def test_a_model_that_lacks_weights_is_not_trained_from_random_ones(
    tmp_path: Path, tiny_model_folder: Path, tiny_data_file: Path, stage: str
) -> None:
    folder = shutil.copytree(tiny_model_folder, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    run, plan = plan_run(tmp_path, spec_for(folder, tiny_data_file, stage=stage))
    assert start(run, plan).wait(timeout=120) != 0
    said = [event for event in events(run) if isinstance(event, ErrorEvent)]
    assert said and "lack 1 of its weights, the first is model.layers.1.mlp.up_proj.weight" in said[0].message
    assert not run.model.exists()
