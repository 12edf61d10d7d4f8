"""Offload to a disk, for real: two ranks train a small model whose states are swapped to files of a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.engine.launch import events, logs, plan_run, start
from tests.tiny import tiny_tokenizer
from zeroboard.contract.events import ErrorEvent, ProofEvent, StepEvent
from zeroboard.contract.spec import RunSpec
from zeroboard.engine.operators import build_root
from zeroboard.zero.promise import judge_proof

needs_operator = pytest.mark.skipif(
    not any(build_root().glob("**/async_io/async_io.so")) and os.environ.get("ZEROBOARD_REQUIRE_NVME") != "1",
    reason="DeepSpeed's async_io is not compiled here, which takes some seven minutes of a processor (and libaio-dev); "
    "ZEROBOARD_REQUIRE_NVME=1 has this test compile it",
)


def wide_model(folder: Path) -> Path:
    """One layer whose matrices are a megabyte on each of two ranks: DeepSpeed swaps nothing smaller."""
    tokenizer = tiny_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=2304,
        num_hidden_layers=1,
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


@pytest.mark.train
@pytest.mark.long
@needs_operator
def test_optimizer_and_parameters_are_swapped_to_a_folder_and_the_proof_counts_them(
    tmp_path: Path, tiny_data_file: Path
) -> None:
    fast = tmp_path / "fast disk"
    fast.mkdir()
    zero = {"stage": "3", "offload": "all", "optimizer_device": "nvme", "param_device": "nvme", "nvme_path": str(fast)}
    wanted: dict[str, Any] = {
        "model": {"path": str(wide_model(tmp_path / "model"))},
        "data": {"path": str(tiny_data_file), "max_length": 64},
        "method": {"kind": "full"},
        "train": {"max_steps": 3, "micro_batch": 2, "accumulation": 1, "learning_rate": 1e-3},
        "zero": zero,
        "devices": {"count": 2},
    }
    run, plan = plan_run(tmp_path, RunSpec.model_validate(wanted))
    assert plan.promise is not None and plan.promise.nvme_bytes > 10e6 and plan.promise.offloaded_bytes == 0
    assert start(run, plan).wait(timeout=280) == 0, logs(run)
    said = events(run)
    assert not [event for event in said if isinstance(event, ErrorEvent)]
    losses = [event.loss for event in said if isinstance(event, StepEvent)]
    assert len(losses) == 3 and losses[-1] < losses[0]
    (found,) = [event for event in said if isinstance(event, ProofEvent)]
    proof = judge_proof(found.ranks, plan.promise, stage="3", offload="all", trainable_share=1.0, planned_ranks=2)
    assert proof.verdict == "in effect", proof
    for rank in found.ranks:
        assert 0.8 * plan.promise.nvme_bytes <= rank.nvme_bytes <= 1.05 * plan.promise.nvme_bytes
    assert not list(fast.iterdir())  # the run took away what it had swapped
    model = LlamaForCausalLM.from_pretrained(run.model)
    assert all(torch.isfinite(p).all() for p in model.parameters())
