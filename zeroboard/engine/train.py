"""The verb `train`: one rank of a run, from the plan to the result.

    read plan and files → process group → load → train → write RUN/model

Everything is decided by the plan; this module only carries it out. It never makes a DeepSpeed configuration of its own.
"""

from __future__ import annotations

import os
import socket
import warnings
from pathlib import Path
from typing import Any

import psutil
import torch
import torch.distributed as dist
import yaml
from transformers import TrainingArguments, set_seed

from zeroboard import swapfolders
from zeroboard.contract.plan import Plan, Resolved
from zeroboard.contract.spec import RunSpec
from zeroboard.engine.heart import Heart
from zeroboard.engine.isolation import IsolationCheck
from zeroboard.engine.marking import end_tokens
from zeroboard.engine.model import count_parameters, dry_save, load_model, save_result
from zeroboard.engine.rendering import ensure_template
from zeroboard.engine.reporter import Reporter, TrainingReporter
from zeroboard.engine.sharding import ProofTaker, planned_config, start_deepspeed
from zeroboard.engine.store import TokenData
from zeroboard.engine.tokens import load_tokenizer
from zeroboard.engine.trainer import SupervisedTrainer
from zeroboard.errors import BrokenFile, NotFound, ZeroBoardError
from zeroboard.files import read_json
from zeroboard.paths import Paths, RunPaths

SCHEDULES = {"linear": "linear", "cosine": "cosine", "constant": "constant_with_warmup"}
"""The spec's word → that of transformers."""


def main(run: RunPaths, heart: Heart) -> int:
    """Train as one rank; the exception that ends it is told as an event, then raised for the launcher to see."""
    reporter = Reporter(run, int(os.environ.get("RANK", "0")), heart)
    # torch 2.13 announces new names of collectives that DeepSpeed calls; thousands of lines in a log otherwise
    warnings.filterwarnings("ignore", message=".*is deprecated. Please use `torch.distributed", category=FutureWarning)
    try:
        train(run, reporter)
    except Exception as error:
        reporter.error(error)
        raise
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        if first_here():
            swapfolders.remove(_swaps(run), run)
    return 0


def first_here() -> bool:
    """Whether this is the first rank of its machine."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def _swaps(run: RunPaths) -> tuple[Path, ...]:
    """The folders that the run swaps to, as the plan says; none where it cannot be read."""
    try:
        return swapfolders.planned(read_plan(run)[0].files)
    except (ZeroBoardError, OSError, ValueError):
        return ()


def read_plan(run: RunPaths) -> tuple[Plan, Resolved, RunSpec]:
    """The plan of a run and the spec that it was made for. Raises `BrokenFile` or `NotFound`."""
    if not run.plan.exists():
        raise NotFound("error.run-not-found", run=run.id)
    plan = Plan.model_validate(read_json(run.plan))
    if plan.resolved is None or "spec.yaml" not in plan.files:
        raise BrokenFile("error.broken-file", path=str(run.plan), why="a plan with errors")
    return plan, plan.resolved, RunSpec.model_validate(yaml.safe_load(plan.files["spec.yaml"]))


def train(run: RunPaths, reporter: Reporter) -> None:
    """Everything between the open log and the end event."""
    plan, resolved, spec = read_plan(run)
    config = planned_config(run, plan)
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = "cpu" if resolved.device == "cpu" else _gpu_name(resolved, local_rank)
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    reporter.rank_is_there(host=socket.gethostname(), device=device, pid=os.getpid(), world_size=world_size)
    torch.set_num_threads(resolved.threads)
    if resolved.device == "cuda":
        torch.cuda.set_device(local_rank)
    tokens = Paths(run.folder.parent.parent).tokens / resolved.tokens_key
    data = TokenData(tokens)
    held_out = TokenData(tokens, "evaluation") if data.facts.evaluation else None
    reporter.launching(0.1, "progress.launch.group")
    if config is not None:
        if first_here():  # before any rank can write there: the process group stands up below
            for folder in swapfolders.named(config):
                swapfolders.claim(folder, run, started=psutil.Process().create_time())
        start_deepspeed(resolved.backend)
    arguments = training_arguments(run, spec, resolved, config)
    reporter.launching(0.3, "progress.launch.load")
    # the seed of `TrainingArguments` comes too late for LoRA's random matrices, which have to be alike on all ranks
    set_seed(spec.train.seed)
    tokenizer = load_tokenizer(resolved.model_path, trust_remote_code=spec.model.trust_remote_code)
    ensure_template(tokenizer)
    model = load_model(spec, resolved)
    if reporter.rank == 0:
        dry_save(model, tokenizer, run.model)
    parameters, trainable = count_parameters(model)
    training = TrainingReporter(
        reporter,
        facts={"rows": len(data), "parameters": parameters, "trainable_parameters": trainable},
        evaluates=held_out is not None,
        evaluate_every=spec.train.evaluate_every,
    )
    proof = ProofTaker(reporter, device=device)
    isolation = IsolationCheck(data) if spec.data.packing == "packed" else None
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0  # never seen: masked everywhere
    reporter.launching(0.7, "progress.launch.optimizer" if resolved.offload == "none" else "progress.launch.build")
    trainer = SupervisedTrainer(
        reporter=reporter,
        training=training,
        data=data,
        held_out=held_out,
        pad=int(pad),
        packing=spec.data.packing,
        model=model,
        args=arguments,
        processing_class=tokenizer,
        callbacks=[isolation, proof, training] if isolation is not None else [proof, training],
    )
    proof.trainer = trainer
    if isolation is not None:
        isolation.trainer = trainer
    trainer.train()
    step = trainer.state.global_step
    if training.stop is not None and training.stop.discard:
        reporter.end("discarded", step)
        return
    if training.stop is None:
        trainer.evaluate()
    reporter.saving(step, "model", done=False)
    save_result(
        model,
        tokenizer,
        run.model,
        write=reporter.rank == 0,
        gather=spec.zero.gather_on_save,
        engine=trainer.model_wrapped,
        stop_tokens=end_tokens(tokenizer),
    )
    reporter.saving(step, "model", done=True)
    reporter.end("completed" if training.stop is None else "stopped", step)


def _gpu_name(resolved: Resolved, local_rank: int) -> str:
    """The UUID that the plan gave this rank, or CUDA's own number: on another machine the cards have other UUIDs."""
    known = resolved.nodes == 1 and local_rank < len(resolved.gpus)
    return resolved.gpus[local_rank] if known else f"cuda:{local_rank}"


def training_arguments(
    run: RunPaths, spec: RunSpec, resolved: Resolved, config: dict[str, Any] | None
) -> TrainingArguments:
    """The Trainer's arguments: what the plan resolved, said once more; the Trainer refuses a DeepSpeed file that
    differs from them."""
    wanted = spec.train
    on_cpu = resolved.device == "cpu"
    return TrainingArguments(
        output_dir=str(run.checkpoints),
        per_device_train_batch_size=resolved.batch.micro,
        gradient_accumulation_steps=resolved.batch.accumulation,
        num_train_epochs=wanted.epochs,
        max_steps=wanted.max_steps or -1,
        learning_rate=wanted.learning_rate,
        lr_scheduler_type=SCHEDULES[resolved.schedule],
        # below 1 it is a share of the steps
        warmup_steps=wanted.warmup_ratio if wanted.warmup_steps is None else wanted.warmup_steps,
        adam_beta1=wanted.adam_beta1,
        adam_beta2=wanted.adam_beta2,
        adam_epsilon=wanted.adam_epsilon,
        weight_decay=wanted.weight_decay,
        max_grad_norm=wanted.max_grad_norm,
        bf16=resolved.dtype == "bf16",
        fp16=resolved.dtype == "fp16",
        activation_checkpointing=wanted.activation_checkpointing,
        # the other form needs inputs with gradients, which frozen embeddings under LoRA do not give
        activation_checkpointing_kwargs={"use_reentrant": False} if wanted.activation_checkpointing else None,
        save_strategy="steps" if resolved.save_every else "no",
        save_steps=resolved.save_every or 500,
        save_total_limit=wanted.keep_checkpoints,
        logging_steps=wanted.log_every,
        logging_nan_inf_filter=False,  # a loss that is NaN is shown, not replaced by the last good one
        seed=wanted.seed,
        data_seed=wanted.seed,
        use_cpu=on_cpu,
        ddp_backend=resolved.backend,
        ddp_find_unused_parameters=False,
        deepspeed=config,
        dataloader_pin_memory=not on_cpu,
        dataloader_num_workers=wanted.workers,
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to="none",
    )
