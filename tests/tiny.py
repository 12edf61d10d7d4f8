"""Models and data small enough to train within a test: made from nothing at test time, nothing downloaded.

python -m tests.tiny FOLDER      writes FOLDER/model and FOLDER/data.jsonl, to try things by hand
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SUBJECTS = ("stage one", "stage two", "stage three", "offload", "the optimizer", "a gradient", "the adapter", "显存")
QUESTIONS = ("What does {} do?", "Explain {} to me.", "Is {} sharded?", "请介绍{}。")
ANSWERS = ("It shards {}.", "Well, {} is split over the ranks.", "No, {} stays whole.", "{}被切分到每张卡上。")

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

Format = Literal["alpaca", "sharegpt", "messages"]


def pair(number: int) -> tuple[str, str]:
    """The question and answer with that number; all of the first 32 differ."""
    subject = SUBJECTS[number % len(SUBJECTS)]
    kind = (number // len(SUBJECTS)) % len(QUESTIONS)
    return QUESTIONS[kind].format(subject), ANSWERS[kind].format(subject)


def tiny_tokenizer(template: str | None = "chatml", vocabulary: int = 384) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer with ChatML's special tokens; padding is the end token, as in SmolLM2.

    `template`: `chatml`, a Jinja text of one's own, or None for a tokenizer without one.
    """
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [text for number in range(32) for text in pair(number)] + ["system user assistant"] * 8
    bpe.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        unk_token="<|endoftext|>",
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHATML if template == "chatml" else template
    return tokenizer


def tiny_model(folder: Path, *, tied: bool = False, template: str | None = "chatml", seed: int = 0) -> Path:
    """Write a Llama of 2 layers, width 64, with random weights and its tokenizer; returns the folder."""
    tokenizer = tiny_tokenizer(template)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_row(number: int, format: Format) -> dict[str, Any]:
    """One row in one of the forms that data files have."""
    question, answer = pair(number)
    if format == "alpaca":
        return {"instruction": question, "input": "", "output": answer}
    if format == "sharegpt":
        return {"conversations": [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]}
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}


def tiny_data(file: Path, rows: int = 24, format: Format = "alpaca") -> Path:
    """Write a JSONL file of short questions and answers, some of them Chinese; returns the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(tiny_row(number, format), ensure_ascii=False) for number in range(rows))
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


if __name__ == "__main__":
    target = Path(sys.argv[1])
    tiny_model(target / "model")
    tiny_data(target / "data.jsonl")
