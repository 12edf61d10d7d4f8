from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.tiny import tiny_tokenizer
from zeroboard.contract.requests import Message
from zeroboard.engine.generate import CannotAsk, Pieces, generate, prompt_tokens, stop_tokens

USER = [Message(role="user", content="What does offload do?")]


@pytest.fixture(scope="module")
def tiny(tiny_model_folder: Path) -> tuple[Any, Any]:
    model = AutoModelForCausalLM.from_pretrained(tiny_model_folder).eval()
    return model, AutoTokenizer.from_pretrained(tiny_model_folder)


def continued(tiny: tuple[Any, Any], **options: Any) -> tuple[list[int], str]:
    model, tokenizer = tiny
    tokens: list[int] = []
    end = generate(
        model,
        options.pop("ids", None) or prompt_tokens(tokenizer, USER),
        stops=options.pop("stops", frozenset()),
        max_new_tokens=options.pop("max_new_tokens", 12),
        on_token=tokens.append,
        **options,
    )
    return tokens, end


def test_temperature_zero_takes_the_likeliest_token_each_time(tiny: tuple[Any, Any]) -> None:
    model, tokenizer = tiny
    ids = prompt_tokens(tokenizer, USER)
    expected = list(ids)
    for _ in range(12):
        with torch.inference_mode():
            expected.append(int(model(input_ids=torch.tensor([expected])).logits[0, -1].argmax()))
    assert continued(tiny) == (expected[len(ids) :], "length")


def test_a_seed_gives_the_same_answer_again_and_another_seed_another(tiny: tuple[Any, Any]) -> None:
    one = continued(tiny, temperature=1.0, seed=1)
    assert one == continued(tiny, temperature=1.0, seed=1)
    assert one != continued(tiny, temperature=1.0, seed=2)


def test_a_small_nucleus_is_the_likeliest_token(tiny: tuple[Any, Any]) -> None:
    assert continued(tiny, temperature=1.0, top_p=1e-6) == continued(tiny)


def test_an_end_token_ends_the_answer_and_is_not_part_of_it(tiny: tuple[Any, Any]) -> None:
    tokens, _ = continued(tiny)
    stop = tokens[5]
    assert continued(tiny, stops=frozenset([stop])) == (tokens[: tokens.index(stop)], "end-token")


def test_a_stop_is_heard_between_two_tokens(tiny: tuple[Any, Any]) -> None:
    left = iter([False, False, False, True])
    tokens, end = continued(tiny, stopped=lambda: next(left))
    assert (len(tokens), end) == (3, "stopped")


def test_a_prompt_that_fills_the_context_is_refused_and_one_below_it_is_cut(tiny: tuple[Any, Any]) -> None:
    limit = tiny[0].config.max_position_embeddings
    with pytest.raises(CannotAsk) as caught:
        continued(tiny, ids=[5] * limit)
    assert caught.value.params == {"tokens": limit, "limit": limit}
    tokens, end = continued(tiny, ids=[5] * (limit - 3))
    assert (len(tokens), end) == (3, "length")


def test_end_tokens_are_those_of_tokenizer_settings_and_template(tiny: tuple[Any, Any]) -> None:
    model, tokenizer = tiny
    other = tiny_tokenizer()
    other.eos_token = "<|endoftext|>"
    model.generation_config.eos_token_id = [7, 9]
    ids = {token: other.convert_tokens_to_ids(token) for token in ("<|endoftext|>", "<|im_end|>")}
    assert stop_tokens(other, model) == {7, 9, *ids.values()}
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    assert stop_tokens(tokenizer, model) == {tokenizer.eos_token_id}


def test_a_template_that_refuses_is_told_and_not_raised() -> None:
    tokenizer = tiny_tokenizer("{{ raise_exception('no system turn') }}")
    with pytest.raises(CannotAsk, match="no system turn"):
        prompt_tokens(tokenizer, USER)


def test_text_comes_without_half_characters() -> None:
    tokenizer = tiny_tokenizer()
    text = "显存 🙂 Größe, 请介绍 ZeRO。"
    ids = tokenizer.encode(text, add_special_tokens=False)
    pieces = Pieces(tokenizer)
    parts = [pieces.push(token) for token in ids]
    assert "".join(parts) + pieces.rest() == text
    assert not any("\N{REPLACEMENT CHARACTER}" in part for part in parts)
    assert "" in parts  # the bytes of the emoji waited for each other


def test_an_answer_cut_within_a_character_loses_only_that() -> None:
    tokenizer = tiny_tokenizer()
    ids = tokenizer.encode("ab🙂", add_special_tokens=False)
    pieces = Pieces(tokenizer)
    assert "".join(pieces.push(token) for token in ids[:-1]) + pieces.rest() == "ab"
