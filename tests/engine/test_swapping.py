"""Offload to a disk, for real: two ranks train a small model whose states are swapped to files of a folder."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from tests.engine.launch import events, logs, plan_run, start
from tests.tiny import tiny_tokenizer
from zeroboard.checkpoints.consolidate import SIZES
from zeroboard.contract.events import ErrorEvent, ProofEvent, RankEvent, StepEvent
from zeroboard.contract.plan import Plan
from zeroboard.contract.reports import Proof
from zeroboard.contract.requests import ConsolidateRequest
from zeroboard.contract.spec import Offload, RunSpec
from zeroboard.engine.consolidate import consolidate
from zeroboard.engine.operators import build_root
from zeroboard.errors import Refused
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs.leftovers import left_over
from zeroboard.swapfolders import planned as swapfolders_of
from zeroboard.swapfolders import remove
from zeroboard.zero.promise import judge_proof

needs_operator = pytest.mark.skipif(
    not any(build_root().glob("**/async_io/async_io.so")) and os.environ.get("ZEROBOARD_REQUIRE_NVME") != "1",
    reason="DeepSpeed's async_io is not compiled here, which takes a minute of a processor (and needs libaio-dev); "
    "ZEROBOARD_REQUIRE_NVME=1 has these tests compile it",
)


def wide_model(folder: Path) -> Path:
    """Matrices of a megabyte on each of two ranks, as DeepSpeed swaps nothing smaller; more of them than buffers."""
    tokenizer = tiny_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=2304,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


Trained = tuple[RunPaths, Plan, Path]
"""A run, its plan, and the disk that it swapped to."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wide_model(tmp_path_factory.mktemp("wide") / "model")


def planned(root: Path, model: Path, data: Path, *, steps: int = 3, **zero: str) -> Trained:
    """A training that is saved as it ends, with a disk to swap to where it is to."""
    fast = root / "fast disk"
    fast.mkdir(parents=True)
    place = {"nvme_path": str(fast)} if "nvme" in zero.values() else {}
    wanted: dict[str, Any] = {
        "model": {"path": str(model)},
        "data": {"path": str(data), "max_length": 64},
        "method": {"kind": "full"},
        "train": {"max_steps": steps, "micro_batch": 2, "accumulation": 1, "learning_rate": 1e-3, "save_every": steps},
        "zero": {"stage": "3", **zero, **place},
        "devices": {"count": 2},
    }
    return *plan_run(root, RunSpec.model_validate(wanted)), fast


def losses(run: RunPaths) -> list[float]:
    assert not [event for event in events(run) if isinstance(event, ErrorEvent)]
    return [event.loss for event in events(run) if isinstance(event, StepEvent)]


def judged(run: RunPaths, plan: Plan, offload: Offload) -> Proof:
    (found,) = [event for event in events(run) if isinstance(event, ProofEvent)]
    return judge_proof(found.ranks, plan.promise, stage="3", offload=offload, trainable_share=1.0, planned_ranks=2)


@pytest.fixture(scope="module")
def in_memory(tmp_path_factory: pytest.TempPathFactory, model: Path, tiny_data_file: Path) -> list[float]:
    """The losses of the same training where nothing is swapped."""
    run, plan, _ = planned(tmp_path_factory.mktemp("memory") / "cache", model, tiny_data_file, offload="all")
    assert start(run, plan).wait(timeout=280) == 0, logs(run)
    return losses(run)


@pytest.mark.train
@pytest.mark.long
@needs_operator
@pytest.mark.parametrize(
    ("offload", "zero"),
    [
        ("optimizer", {"optimizer_device": "nvme"}),
        ("all", {"optimizer_device": "nvme", "param_device": "nvme"}),
    ],
)
def test_a_training_that_swaps_to_a_folder_learns_the_same_proves_it_and_leaves_nothing_there(
    tmp_path: Path, model: Path, tiny_data_file: Path, in_memory: list[float], offload: Offload, zero: dict[str, str]
) -> None:
    run, plan, fast = planned(tmp_path, model, tiny_data_file, offload=offload, **zero)
    assert plan.promise is not None and plan.promise.nvme_bytes > 30e6
    assert start(run, plan).wait(timeout=280) == 0, logs(run)
    assert losses(run) == in_memory and in_memory[-1] < in_memory[0]
    proof = judged(run, plan, offload)
    assert proof.verdict == "in effect", proof
    for rank in proof.ranks:
        assert rank.nvme_bytes == pytest.approx(plan.promise.nvme_bytes, rel=0.01)
        assert rank.offloaded_bytes == pytest.approx(plan.promise.offloaded_bytes, rel=0.01, abs=32768)
    assert not list(fast.iterdir())  # the run took away what it had swapped

    # the checkpoint's master weights are those files, copied: put together, they are the result
    (checkpoint,) = run.checkpoints.iterdir()
    asked = ConsolidateRequest(
        path=str(checkpoint), target=str(tmp_path / "whole"), dtype="fp32", runs=str(run.folder.parent)
    )
    consolidate(asked, lambda *said: None)
    whole, result = (load_file(folder / "model.safetensors") for folder in (tmp_path / "whole", run.model))
    assert whole.keys() == result.keys() and all(torch.equal(whole[name], result[name]) for name in whole)

    (swapped,) = checkpoint.glob("*/offloaded_tensors/rank01/[0-9]*.swp")
    os.truncate(swapped, 4096)
    for trouble, code in (("swapped", "checkpoint-damaged"), (SIZES, "checkpoint-unsupported")):
        if trouble == SIZES:
            (swapped.parent / SIZES).unlink()
        with pytest.raises(Refused) as refused:
            consolidate(asked.model_copy(update={"target": str(tmp_path / "other")}), lambda *said: None)
        assert [problem.says for problem in refused.value.problems] == [f"problem.{code}.swapped"]


@pytest.mark.train
@pytest.mark.long
@needs_operator
def test_ranks_that_swap_nothing_though_the_plan_says_so_are_found_out(
    tmp_path: Path, model: Path, tiny_data_file: Path
) -> None:
    nvme = {"optimizer_device": "nvme", "param_device": "nvme"}
    run, plan, fast = planned(tmp_path, model, tiny_data_file, steps=1, offload="all", **nvme)
    assert start(run, plan, module="tests.engine.ignoring", IGNORING="disk").wait(timeout=280) == 0, logs(run)
    proof = judged(run, plan, "all")
    assert (proof.verdict, proof.says) == ("not in effect", "proof.not-swapped")
    assert not list(fast.iterdir())


@pytest.mark.train
@pytest.mark.long
@needs_operator
def test_ranks_that_are_killed_leave_a_folder_that_is_named_until_the_supervisor_removes_it(
    tmp_path: Path, model: Path, tiny_data_file: Path
) -> None:
    nvme = {"optimizer_device": "nvme", "param_device": "nvme"}
    run, plan, fast = planned(tmp_path, model, tiny_data_file, steps=10_000, offload="all", **nvme)
    launcher = start(run, plan)
    until = time.monotonic() + 240
    while launcher.poll() is None and time.monotonic() < until and not any(fast.glob("*/*/optimizer/*/exp_avg-*")):
        time.sleep(0.1)
    assert any(fast.iterdir()), logs(run)
    assert left_over(Paths(tmp_path)) == ()  # it lives
    processes = [launcher.pid, *(event.pid for event in events(run) if isinstance(event, RankEvent))]
    for pid in processes:
        os.kill(pid, signal.SIGKILL)
    launcher.wait()
    until = time.monotonic() + 10
    while not left_over(Paths(tmp_path)) and time.monotonic() < until:  # dying takes a moment
        time.sleep(0.1)
    (left,) = left_over(Paths(tmp_path))
    assert left.folder == fast / run.id and left.bytes > 60e6
    remove(swapfolders_of(dict(plan.files)), run)
    assert left_over(Paths(tmp_path)) == () and not list(fast.iterdir())
