"""Loading the model that is trained, putting LoRA on it, and writing the result.

Only local folders are read: the engine's door switches the hub off, and every load says `local_files_only`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import deepspeed
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from zeroboard.contract.plan import Dtype, Resolved
from zeroboard.contract.spec import MethodSpec, RunSpec
from zeroboard.files import share, sync_folder

TORCH_DTYPE: dict[Dtype, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def weights_dtype(resolved: Resolved) -> torch.dtype:
    """The type in which the weights are loaded.

    That of the computation, except where plain data parallel trains all of them: there is no fp32 master copy then as
    DeepSpeed keeps one, so the weights themselves are fp32 and autocast computes in 16 bit.
    """
    if resolved.stage == "none" and resolved.method == "full":
        return torch.float32
    return TORCH_DTYPE[resolved.dtype]


def load_model(spec: RunSpec, resolved: Resolved) -> nn.Module:
    """The model, ready to be trained: with LoRA a `PeftModel` whose own matrices alone are trainable.

    Under stage 3 `from_pretrained` shards the weights while it reads them (the process group must stand, and the
    `TrainingArguments` with the DeepSpeed configuration must be alive). Raises `OSError` where the folder holds no
    model, `ValueError` where weights are missing or LoRA's targets name no layer.
    """
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        resolved.model_path,
        dtype=weights_dtype(resolved),
        local_files_only=True,
        trust_remote_code=spec.model.trust_remote_code,
        output_loading_info=True,
    )
    model, told = loaded  # what `output_loading_info` adds
    missing = sorted(told["missing_keys"])
    if missing:  # the library would begin with random numbers in their place, and only warn
        raise ValueError(
            f"the model's files lack {len(missing)} of its weights, the first is {missing[0]}; "
            "`zeroboard verify` on its folder names all of them"
        )
    model.config.use_cache = False
    if resolved.method == "full":
        return cast(nn.Module, model)
    tuned = get_peft_model(
        model,
        lora_config(spec.method),
        # DeepSpeed trains the adapter in the type of the computation and keeps the fp32 copy itself
        autocast_adapter_dtype=resolved.stage == "none",
    )
    # what the adapter belongs to; an adapter without it cannot be loaded again
    tuned.peft_config["default"].base_model_name_or_path = str(Path(resolved.model_path).absolute())
    return cast(nn.Module, tuned)


def lora_config(method: MethodSpec) -> LoraConfig:
    """PEFT's form of the spec's LoRA fields."""
    names = [name.strip() for name in method.targets.split(",") if name.strip()]
    return LoraConfig(
        r=method.rank,
        lora_alpha=method.alpha,
        lora_dropout=method.dropout,
        target_modules="all-linear" if names == ["all-linear"] else names,
        bias="none",
        task_type="CAUSAL_LM",
    )


def count_parameters(model: nn.Module) -> tuple[int, int]:
    """(all, trainable) elements; a parameter that stage 3 has sharded counts with its whole size."""
    sizes = [(int(getattr(p, "ds_numel", p.numel())), p.requires_grad) for p in model.parameters()]
    return sum(size for size, _ in sizes), sum(size for size, trainable in sizes if trainable)


def save_result(
    model: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    target: Path,
    *,
    write: bool,
    gather: bool,
    engine: Any = None,
    stop_tokens: Iterable[int] = (),
) -> None:
    """Write the adapter or the full model with its tokenizer and chat template; the folder appears whole or not at all.

    All ranks call it, because stage 3 gathers; the one with `write` writes. With `gather` off a full model under stage
    3 is written as DeepSpeed's own sharded checkpoint by all ranks (`engine` is DeepSpeed's). `stop_tokens` are added
    to the end tokens of a full model's generation settings. Ranks are not made to wait for each other at the end.
    """
    temporary = target.with_name(f".{target.name}.tmp")
    sharded = any(hasattr(p, "ds_tensor") for p in model.parameters())
    if sharded and not gather and not isinstance(model, PeftModel):
        _save_sharded(model, tokenizer, temporary, engine, write=write)
    else:
        state = whole_state(model) if sharded else None
        if write:
            _fresh(temporary)
            _save_whole(model, temporary, state, stop_tokens)
            tokenizer.save_pretrained(temporary)
    if write:
        share(temporary)
        if target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
        sync_folder(target.parent)


def dry_save(model: nn.Module, tokenizer: PreTrainedTokenizerBase, target: Path) -> None:
    """Write all that goes with the weights beside the place of the result, and take it away again.

    Before the first step, because what cannot be written at the end (settings that contradict each other, a folder that
    is closed) would cost the whole run. Raises what writing raises.
    """
    trial = target.with_name(f".{target.name}.dry")
    _fresh(trial)
    try:
        if isinstance(model, PeftModel):
            for config in model.peft_config.values():
                config.save_pretrained(str(trial))
        else:
            full = cast(PreTrainedModel, model)
            full.config.save_pretrained(trial)
            if full.generation_config is not None:
                full.generation_config.save_pretrained(trial)
        tokenizer.save_pretrained(trial)
    finally:
        shutil.rmtree(trial)


def _fresh(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)


def _save_whole(
    model: nn.Module, folder: Path, state: dict[str, torch.Tensor] | None, stop_tokens: Iterable[int]
) -> None:
    if isinstance(model, PeftModel):
        # "auto" would look the base up to see whether its vocabulary grew; it never does here
        model.save_pretrained(str(folder), state_dict=state, save_embedding_layers=False)
        return
    full = cast(PreTrainedModel, model)
    full.config.use_cache = True  # off while training only
    generation = full.generation_config
    if generation is not None:
        known = generation.eos_token_id
        ends = [] if known is None else [known] if isinstance(known, int) else list(known)
        ends += [token for token in stop_tokens if token not in ends]
        generation.eos_token_id = ends[0] if len(ends) == 1 else ends or None
    full.save_pretrained(folder, state_dict=state)


def _save_sharded(
    model: nn.Module, tokenizer: PreTrainedTokenizerBase, folder: Path, engine: Any, *, write: bool
) -> None:
    if write:
        _fresh(folder)
        cast(PreTrainedModel, model).config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    deepspeed.comm.barrier()
    engine.save_checkpoint(str(folder))
    deepspeed.comm.barrier()


def whole_state(model: nn.Module) -> dict[str, torch.Tensor]:
    """What stage 3 has sharded, gathered on every rank and copied to host memory on rank 0 (empty elsewhere).

    Only what is saved is gathered: the adapter's matrices with LoRA, everything otherwise; one parameter at a time, so
    that no rank ever holds more than one whole. Tied weights appear once, under their first name.
    """
    only_trainable = isinstance(model, PeftModel)
    state: dict[str, torch.Tensor] = {}
    for name, parameter in model.named_parameters():
        if only_trainable and not parameter.requires_grad:
            continue
        with deepspeed.zero.GatheredParameters([parameter]):
            if deepspeed.comm.get_rank() == 0:
                state[name] = parameter.detach().cpu().clone()
    if not only_trainable and deepspeed.comm.get_rank() == 0:
        names = {name for name, _ in model.named_buffers()} & model.state_dict().keys()  # the persistent ones
        state |= {name: buffer.detach().cpu().clone() for name, buffer in model.named_buffers() if name in names}
    return state
