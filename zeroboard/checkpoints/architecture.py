"""The tensors that a `config.json` promises, for architectures whose layout is known here.

Source: the modules of transformers 5.24 (`models/<type>/modeling_<type>.py`); a test compares every type with the
model that transformers itself builds. Types that are not in the table are not guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Shape = tuple[int, ...]

LIMIT = 1 << 32
"""No size in a config is larger; what is comes from a broken or hostile file."""

MOST_LAYERS = 10_000


@dataclass(frozen=True, slots=True)
class Expected:
    """What has to be there."""

    shapes: dict[str, Shape]
    """Name → shape."""
    tied: bool
    """The output layer shares the embedding: `lm_head.weight` may be left out."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How an architecture differs from Llama."""

    qkv_bias: bool | None = None
    """None: as the config's `attention_bias` says (which then also gives `o_proj` one)."""
    mlp_bias: bool = False
    """Whether the config's `mlp_bias` is heard."""
    head_norms: bool = False
    """Queries and keys have a norm each."""
    four_norms: bool = False
    """Norms before and after both halves of a layer."""
    fused: bool = False
    """One matrix for q, k, v and one for gate and up."""
    head_dim: int | None = None
    """Where the config does not say; None: hidden size over heads."""
    tied: bool = False
    """Where the config does not say."""


LAYOUTS: dict[str, Layout] = {
    "llama": Layout(mlp_bias=True),
    "granite": Layout(mlp_bias=True),
    "smollm3": Layout(mlp_bias=True, tied=True),
    "mistral": Layout(qkv_bias=False),
    "qwen2": Layout(qkv_bias=True),
    "qwen3": Layout(head_norms=True, head_dim=128),
    "gemma": Layout(head_dim=256, tied=True),
    "gemma2": Layout(four_norms=True, head_dim=256, tied=True),
    "gemma3_text": Layout(four_norms=True, head_norms=True, head_dim=256, tied=True),
    "phi3": Layout(fused=True, qkv_bias=False),
}


class ConfigFault(Exception):
    """A size in the config is missing or impossible; `field` names it."""

    def __init__(self, field: str, value: object) -> None:
        self.field = field
        self.value = value
        super().__init__(f"{field}: {value!r}")


def known(config: Mapping[str, Any]) -> bool:
    """Whether the tensors of this config can be told, and its weights are not quantised (other names and shapes)."""
    return str(config.get("model_type")) in LAYOUTS and not config.get("quantization_config")


def expected_tensors(config: Mapping[str, Any]) -> Expected:
    """Names and shapes of a causal language model; `known(config)` must hold. Raises `ConfigFault`."""
    layout = LAYOUTS[config["model_type"]]
    hidden = _size(config, "hidden_size")
    vocabulary = _size(config, "vocab_size")
    layers = _size(config, "num_hidden_layers")
    if layers > MOST_LAYERS:
        raise ConfigFault("num_hidden_layers", layers)
    tied = config.get("tie_word_embeddings")
    shapes: dict[str, Shape] = {"model.embed_tokens.weight": (vocabulary, hidden)}
    layer = _layer(config, layout, hidden)
    for index in range(layers):
        shapes.update({f"model.layers.{index}.{name}": shape for name, shape in layer.items()})
    shapes["model.norm.weight"] = (hidden,)
    shapes["lm_head.weight"] = (vocabulary, hidden)
    return Expected(shapes, layout.tied if tied is None else bool(tied))


def _layer(config: Mapping[str, Any], layout: Layout, hidden: int) -> dict[str, Shape]:
    inner = _size(config, "intermediate_size")
    heads = _size(config, "num_attention_heads")
    kv_heads = _size(config, "num_key_value_heads", heads)
    head = _size(config, "head_dim", layout.head_dim or hidden // heads)
    query, value = heads * head, kv_heads * head
    shapes: dict[str, Shape] = {"self_attn.o_proj.weight": (hidden, query), "mlp.down_proj.weight": (hidden, inner)}
    biased: list[str] = []
    if layout.fused:
        shapes["self_attn.qkv_proj.weight"] = (query + 2 * value, hidden)
        shapes["mlp.gate_up_proj.weight"] = (2 * inner, hidden)
    else:
        shapes["self_attn.q_proj.weight"] = (query, hidden)
        shapes["self_attn.k_proj.weight"] = (value, hidden)
        shapes["self_attn.v_proj.weight"] = (value, hidden)
        shapes["mlp.gate_proj.weight"] = (inner, hidden)
        shapes["mlp.up_proj.weight"] = (inner, hidden)
    both = layout.qkv_bias is None and bool(config.get("attention_bias"))
    if layout.qkv_bias or both:
        biased += ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]
    if both:
        biased.append("self_attn.o_proj")
    if layout.mlp_bias and config.get("mlp_bias"):
        biased += ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
    shapes.update({f"{name}.bias": shapes[f"{name}.weight"][:1] for name in biased})
    if layout.head_norms:
        shapes["self_attn.q_norm.weight"] = shapes["self_attn.k_norm.weight"] = (head,)
    norms = ["input_layernorm", "post_attention_layernorm"]
    if layout.four_norms:
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    shapes.update({f"{name}.weight": (hidden,) for name in norms})
    return shapes


def _size(config: Mapping[str, Any], field: str, default: int | None = None) -> int:
    value = config.get(field)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= LIMIT:
        raise ConfigFault(field, value)
    return value
