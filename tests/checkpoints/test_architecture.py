from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.checkpoints.folders import CONFIG
from zeroboard.checkpoints.architecture import LAYOUTS, ConfigFault, expected_tensors, known

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 96,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": 1,
}


@pytest.mark.parametrize("model_type", LAYOUTS)
@pytest.mark.parametrize("more", [{}, {"attention_bias": True}, {"mlp_bias": True}, {"tie_word_embeddings": True}])
def test_every_layout_is_what_transformers_builds(model_type: str, more: dict[str, Any]) -> None:
    config = AutoConfig.for_model(model_type, **SIZES, **more)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    built = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    expected = expected_tensors(config.to_dict())
    assert expected.shapes == built
    assert expected.tied == config.tie_word_embeddings


@pytest.mark.parametrize("model_type", LAYOUTS)
def test_what_a_config_leaves_out_is_what_transformers_takes(model_type: str) -> None:
    config = AutoConfig.for_model(model_type, num_hidden_layers=1, pad_token_id=0)
    said = {k: v for k, v in config.to_dict().items() if k not in ("tie_word_embeddings", "head_dim")}
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    expected = expected_tensors(said)
    assert expected.shapes == {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    assert expected.tied == config.tie_word_embeddings


@pytest.mark.parametrize(
    ("field", "value"),
    [("hidden_size", None), ("vocab_size", "40"), ("num_attention_heads", 0), ("num_hidden_layers", 10**9)],
)
def test_a_missing_or_absurd_size_is_named(field: str, value: object) -> None:
    with pytest.raises(ConfigFault) as caught:
        expected_tensors(CONFIG | {field: value})
    assert caught.value.field == field


def test_other_types_and_quantised_weights_are_not_guessed_at() -> None:
    assert not known({"model_type": "something-new"})
    assert not known({})
    assert not known(CONFIG | {"quantization_config": {"quant_method": "gptq"}})
