"""Shapes of a model's tensors, and what follows from them: elements, linear layers, sizes of tensors.

Shapes come from the headers of safetensors files; for a Llama that is not there yet they follow from its `config.json`
(`modeling_llama.py` of transformers: no biases, RMS norms, one matrix for each projection).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Shapes = Mapping[str, tuple[int, ...]]

_BLOCK = re.compile(r"\.\d+\.")
"""A number in a tensor's name: it belongs to one of the blocks."""
_EMBEDDING = re.compile(r"(^|\.)(embed|wte|wpe)")
_OUTPUT = "lm_head.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeFacts:
    """What the shapes of all tensors tell."""

    parameters: int
    """Elements, tied weights counted once."""
    linear_shapes: dict[str, tuple[int, int]]
    """The linear layers inside the blocks: name of the weight → (out, in)."""
    tensor_sizes: dict[int, int]
    """Elements of a tensor → how many are of that size."""


def shape_facts(shapes: Shapes, *, tied: bool) -> ShapeFacts:
    """Sum the tensors up. `tied`: the output matrix is the embedding, and counts once even if a file holds both."""
    embedded = any(_EMBEDDING.search(name) for name in shapes)
    kept = {
        name: shape
        for name, shape in shapes.items()
        if not name.endswith("rotary_emb.inv_freq") and not (tied and embedded and name == _OUTPUT)
    }
    sizes = Counter(math.prod(shape) for shape in kept.values())
    linear = {
        name: (shape[0], shape[1])
        for name, shape in kept.items()
        if len(shape) == 2 and name.endswith(".weight") and _BLOCK.search(name) and not _EMBEDDING.search(name)
    }
    return ShapeFacts(
        parameters=sum(size * count for size, count in sizes.items()),
        linear_shapes=linear,
        tensor_sizes=dict(sorted(sizes.items())),
    )


def llama_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The tensors of a Llama by its configuration. Raises `KeyError` where a size is missing."""
    hidden, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or hidden // heads
    queries, keys = heads * width, config.get("num_key_value_heads", heads) * width
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, hidden)}
    for layer in range(config["num_hidden_layers"]):
        block = f"model.layers.{layer}."
        shapes |= {
            f"{block}self_attn.q_proj.weight": (queries, hidden),
            f"{block}self_attn.k_proj.weight": (keys, hidden),
            f"{block}self_attn.v_proj.weight": (keys, hidden),
            f"{block}self_attn.o_proj.weight": (hidden, queries),
            f"{block}mlp.gate_proj.weight": (inner, hidden),
            f"{block}mlp.up_proj.weight": (inner, hidden),
            f"{block}mlp.down_proj.weight": (hidden, inner),
            f"{block}input_layernorm.weight": (hidden,),
            f"{block}post_attention_layernorm.weight": (hidden,),
        }
    shapes["model.norm.weight"] = (hidden,)
    if not config.get("tie_word_embeddings"):
        shapes[_OUTPUT] = (vocabulary, hidden)
    return shapes
