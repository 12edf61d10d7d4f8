"""What follows from the shapes of a model's tensors."""

from __future__ import annotations

from math import prod

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from tests.planning.facts import TINY
from zeroboard.planning.shapes import llama_shapes, shape_facts


@pytest.mark.parametrize(
    "change",
    [{}, {"num_key_value_heads": 4}, {"tie_word_embeddings": True}, {"head_dim": 32}, {"num_hidden_layers": 1}],
)
def test_the_shapes_of_a_llama_are_those_of_the_real_one(change: dict[str, int]) -> None:
    config = {**TINY, **change}
    model = LlamaForCausalLM(LlamaConfig(**{k: v for k, v in config.items() if k != "model_type"}))
    real = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert llama_shapes(config) == real


def test_linear_layers_are_those_inside_the_blocks() -> None:
    shapes = {
        "model.embed_tokens.weight": (10, 4),
        "model.layers.0.mlp.up_proj.weight": (8, 4),
        "model.layers.0.mlp.up_proj.bias": (8,),
        "model.layers.0.norm.weight": (4,),
        "model.layers.0.mlp.experts.gate_up_proj": (2, 4, 8),
        "model.layers.0.self_attn.rotary_emb.inv_freq": (2,),
        "lm_head.weight": (10, 4),
    }
    facts = shape_facts(shapes, tied=False)
    assert facts.linear_shapes == {"model.layers.0.mlp.up_proj.weight": (8, 4)}
    assert facts.parameters == 40 + 32 + 8 + 4 + 64 + 40
    assert facts.tensor_sizes == {4: 1, 8: 1, 32: 1, 40: 2, 64: 1}


def test_a_tied_output_counts_once_and_an_output_without_embedding_counts() -> None:
    shapes = {"model.embed_tokens.weight": (10, 4), "lm_head.weight": (10, 4)}
    assert shape_facts(shapes, tied=True).parameters == 40
    assert shape_facts(shapes, tied=False).parameters == 80
    assert shape_facts({"lm_head.weight": (10, 4)}, tied=True).parameters == 40


def test_a_size_that_is_missing_raises() -> None:
    with pytest.raises(KeyError):
        llama_shapes({"hidden_size": 4})
    assert sum(map(prod, llama_shapes(TINY).values())) > 0
