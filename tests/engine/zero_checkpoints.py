"""Real checkpoints of DeepSpeed, as small as they can be: every stage, two and four ranks, one step each.

    python -m tests.engine.zero_checkpoints FOLDER      writes FOLDER/<ranks>-<stage>-<model>/

The libraries are imported once and the ranks are forked from that process, for importing is what takes the time.
`model`: `full` (tied embeddings), `half` (the first layer frozen, two groups of parameters, a buffer), `lora` (DoRA,
embeddings and a module saved whole; what is frozen is left out, as the Trainer does). Sizes are odd so that nothing
divides evenly.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

import deepspeed
import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict

from tests.engine.results import llama

CASES = {
    2: tuple((stage, model) for stage in (1, 2, 3) for model in ("full", "half", "lora")),
    4: ((2, "half"), (3, "half"), (3, "lora")),
}
"""Ranks → stages and models."""


def name(ranks: int, stage: int, model: str) -> str:
    return f"{ranks}-{stage}-{model}"


def build(kind: str) -> tuple[Any, list[dict[str, Any]]]:
    """The model, and its groups of trained parameters."""
    model: Any = llama(tied=kind == "full")
    if kind == "half":
        for parameter in model.model.layers[0].parameters():
            parameter.requires_grad_(False)
        model.model.register_buffer("scale", torch.tensor([0.1, 2.5], dtype=torch.bfloat16))
        model.model.register_buffer("places", torch.tensor([3, 1 << 40]))
        model.model.norm.weight.requires_grad_(False)
    if kind == "lora":
        lora = LoraConfig(r=3, target_modules=["q_proj", "embed_tokens", "up_proj"], modules_to_save=["lm_head"])
        lora.use_dora = True
        lora.base_model_name_or_path = ""
        model = get_peft_model(model, lora)
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in trained if p.dim() > 1]}]
    if flat := [p for p in trained if p.dim() == 1]:
        groups.append({"params": flat, "weight_decay": 0.0})
    return model, groups


def config_of(stage: int) -> dict[str, Any]:
    zero: dict[str, Any] = {"stage": stage}
    if stage == 3:  # several groups of parts, and small parameters that stay whole while training
        zero |= {"sub_group_size": 3000, "stage3_param_persistence_threshold": 50}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "bf16": {"enabled": True},
        "zero_optimization": zero,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
    }


def make(folder: Path, stage: int, kind: str) -> None:
    """Train one step and save, on every rank."""
    model, groups = build(kind)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=groups, config=config_of(stage))
    ids = torch.arange(8)[None] + engine.global_rank
    engine.backward(engine(input_ids=ids, labels=ids).loss)
    engine.step()
    engine.save_checkpoint(folder, exclude_frozen_parameters=kind == "lora")
    if engine.global_rank == 0:
        if kind == "lora":
            model.peft_config["default"].save_pretrained(folder)
            names = sorted(get_peft_model_state_dict(model, save_embedding_layers=False))
            (folder / "expected.json").write_text(json.dumps(names))
        else:
            model.config.save_pretrained(folder)
    engine.destroy()


def rank(number: int, ranks: int, root: Path) -> None:
    """One process of a group."""
    os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(ranks)}
    torch.set_num_threads(1)
    # as zeroboard.engine.sharding does: no compiler is looked for
    deepspeed.ops.__compatible_ops__ = {}
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{root}/meet-{ranks}", rank=number, world_size=ranks
    )
    deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False)
    for stage, kind in CASES[ranks]:
        make(root / name(ranks, stage, kind), stage, kind)
    torch.distributed.destroy_process_group()


def main(root: Path) -> int:
    """All groups, one after the other; the first exit code that is not 0."""
    root.mkdir(parents=True, exist_ok=True)
    for slow in ("deepspeed.module_inject", "torch._inductor.compile_fx"):
        importlib.import_module(slow)  # DeepSpeed's first start imports them, seconds that every rank would spend anew
    fork = multiprocessing.get_context("fork")
    for ranks in CASES:
        group = [fork.Process(target=rank, args=(number, ranks, root)) for number in range(ranks)]
        for process in group:
            process.start()
        for process in group:
            process.join()
        if codes := [p.exitcode for p in group if p.exitcode]:
            return codes[0] or 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
