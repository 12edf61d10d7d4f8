"""Results as a training leaves them, made at test time: an adapter and a full model of the tiny Llama."""

from __future__ import annotations

import string
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from tests.tiny import CHATML, SPECIAL


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


def llama(*, tied: bool) -> LlamaForCausalLM:
    """Two layers whose sizes are divisible by little."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=101,
        hidden_size=18,
        intermediate_size=35,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        tie_word_embeddings=tied,
        dtype=torch.bfloat16,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16)


def letters_base(folder: Path) -> Path:
    """What the adapters of `zero_checkpoints` were trained on, and a tokenizer that their vocabulary has room for."""
    llama(tied=False).save_pretrained(folder)
    known = [*SPECIAL, "<?>", *string.ascii_letters, *" .,:;?!'()-/\n", *string.digits]
    letters = Tokenizer(models.WordLevel({letter: at for at, letter in enumerate(known)}, unk_token="<?>"))
    letters.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    letters.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(
        tokenizer_object=letters, unk_token="<?>", bos_token=SPECIAL[1], eos_token=SPECIAL[2], pad_token=SPECIAL[0],
        chat_template=CHATML, clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)  # fmt: skip
    return folder
