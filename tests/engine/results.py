"""Results as a training leaves them, made at test time: an adapter and a full model of the tiny Llama."""

from __future__ import annotations

from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer


def make_adapter(folder: Path, base: Path, *, trained: bool = True) -> Path:
    """A LoRA adapter saved by peft with the base's tokenizer; filled as if it had been trained, unless it was not."""
    model = get_peft_model(
        AutoModelForCausalLM.from_pretrained(base),
        LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    if trained:
        noise = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.copy_(torch.randn(parameter.shape, generator=noise))
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    return folder


def make_full(folder: Path, base: Path, *, shift: float = 0.05) -> Path:
    """The base with noise of this size on its weights."""
    model = AutoModelForCausalLM.from_pretrained(base)
    noise = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=noise) * shift)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    return folder
