"""Values that plans are made of, for the tests of this room."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from zeroboard.contract.host import GpuFacts, HostFacts
from zeroboard.contract.plan import ModelFacts, TokenFacts
from zeroboard.contract.reports import DataReport
from zeroboard.contract.spec import RunSpec
from zeroboard.planning.shapes import llama_shapes, shape_facts
from zeroboard.planning.specs import parse_spec, with_sets

TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 384,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}


def gpus(count: int, **other: Any) -> tuple[GpuFacts, ...]:
    """GPUs of compute capability 8.0, called GPU-0, GPU-1 …"""
    facts: dict[str, Any] = {"compute_capability": "8.0"} | other
    return tuple(GpuFacts.model_validate({"index": n, "uuid": f"GPU-{n}"} | facts) for n in range(count))


def host(cards: int | tuple[GpuFacts, ...] = 0, **other: Any) -> HostFacts:
    """A machine with two cores, and some GPUs."""
    facts: dict[str, Any] = {
        "hostname": "here",
        "gpus": gpus(cards) if isinstance(cards, int) else cards,
        "cpu_count": 2,
        "memory_total": 2**34,
        "memory_available": 2**33,
        "disk_total": 2**40,
        "disk_free": 2**39,
        "compiler": "/usr/bin/g++",
    }
    return HostFacts.model_validate(facts | other)


def spec(*sets: str) -> RunSpec:
    """A spec with `--set` texts over it; must be a good one."""
    found, problems = parse_spec(with_sets({"model": {"path": "tiny"}, "data": {"path": "data"}}, sets))
    assert found is not None, problems
    return found


def model(folder: Path, **other: Any) -> ModelFacts:
    """The facts of a tiny Llama whose tokenizer lies in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text("{}")
    shapes = shape_facts(llama_shapes(TINY), tied=False)
    facts: dict[str, Any] = {
        "path": str(folder),
        "name": "tiny",
        "architecture": "LlamaForCausalLM",
        "model_type": "llama",
        "parameters": shapes.parameters,
        "hidden": 64,
        "context_length": 4096,
        "has_template": True,
        "linear_shapes": shapes.linear_shapes,
        "tensor_sizes": shapes.tensor_sizes,
    }
    return ModelFacts.model_validate(facts | other)


def data(file: Path, **other: Any) -> DataReport:
    """The report of a good data file, which is written."""
    file.write_text('{"instruction": "q", "output": "a"}\n')
    facts: dict[str, Any] = {
        "path": str(file),
        "format": "alpaca",
        "encoding": "utf-8",
        "total": 24,
        "usable": 24,
        "refused": 0,
        "changed": 0,
    }
    return DataReport.model_validate(facts | other)


def tokens(**other: Any) -> TokenFacts:
    facts: dict[str, Any] = {
        "key": "k",
        "rows": 24,
        "tokens": 2400,
        "learned": 1000,
        "longest": 150,
        "truncated": 0,
        "end_token_lost": 0,
        "without_trainable": 0,
        "template": "model",
    }
    return TokenFacts.model_validate(facts | other)


def write_safetensors(file: Path, shapes: Mapping[str, tuple[int, ...]], dtype: str = "F32") -> Path:
    """A safetensors file of zeros."""
    width = {"F32": 4, "BF16": 2}[dtype]
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in shapes.items():
        end = at + prod(shape) * width
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    raw = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(at))
    return file


def write_model(
    folder: Path, config: Mapping[str, Any] = TINY, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> Path:
    """A folder that looks like a model: configuration, tokenizer, weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(dict(config)))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    write_safetensors(folder / "model.safetensors", llama_shapes(TINY) if shapes is None else shapes)
    return folder
