"""What is learned: exactly the assistant's answers and the token that ends each, decided by position."""

from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerBase

from tests.tiny import CHATML, tiny_tokenizer
from zeroboard.data.conversations import Turn
from zeroboard.engine.marking import encode, end_tokens
from zeroboard.engine.rendering import TemplateRefused, ensure_template, render

ASK = Turn("user", "What does stage two do?")

WITH_DEFAULT_SYSTEM = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful assistant<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TRIMMING = CHATML.replace("message['content']", "(message['content'] | trim)")
SPACE_BEFORE_END = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %}{{ ' ' + message['content'] + ' <|im_end|>' }}"
    "{% else %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% endif %}{% endfor %}"
)
NO_END = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)
# thoughts are kept in the last answer only, and an answer without any gets an empty pair there
THINKING = (
    "{% for message in messages %}{% set content = message['content'] %}"
    "{{ '<|im_start|>' + message['role'] + '\n' }}{% if message['role'] == 'assistant' %}"
    "{% if '</think>' in content %}{% if not loop.last %}{% set content = content.split('</think>')[-1] %}{% endif %}"
    "{% elif loop.last %}{{ '<think></think>' }}{% endif %}{% endif %}{{ content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
RAISING = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system turn here') }}{% endif %}" + CHATML
ODD = (
    "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must take turns') }}{% endif %}{% endfor %}" + CHATML
)
PARTS = CHATML.replace("message['content']", "message['content'][0]['text']")
HALF_ENDED = (
    "{% for message in messages %}{{ ('<|im_start|>' if message['role'] == 'user' else ' ') + message['content'] }}"
    "{% endfor %}"
)
DROPPING = CHATML.replace("in messages %}", "in messages if message['role'] != 'system' %}")
SHOUTING = CHATML.replace("message['content']", "(message['content'] | upper)")


def learned(tokenizer: PreTrainedTokenizerBase, *turns: Turn) -> str:
    sample = encode(tokenizer, turns)
    assert tokenizer.decode(sample.ids) == render(tokenizer, turns)
    kept = [token for token, is_learned in zip(sample.ids, sample.learned, strict=True) if is_learned]
    return str(tokenizer.decode(kept))


@pytest.mark.parametrize(
    "answer",
    [
        "It shards stage two.",
        "被切分到每张卡上，显存减半。",
        "assistant",
        "What does stage two do?",
        "\nstarts with a line break",
        "  starts with spaces, ends with them  ",
        "one\n\n\ntwo",
        "e",
        "🙂 emoji of several bytes 🙂",
    ],
)
@pytest.mark.parametrize("template", ["chatml", WITH_DEFAULT_SYSTEM], ids=["chatml", "default-system"])
def test_learned_tokens_decode_to_the_answer_and_its_end(template: str, answer: str) -> None:
    tokenizer = tiny_tokenizer(template)
    assert learned(tokenizer, ASK, Turn("assistant", answer)) == answer + "<|im_end|>"


def test_padding_that_equals_the_end_token_is_still_learned_where_it_ends_an_answer() -> None:
    tokenizer = tiny_tokenizer()
    assert tokenizer.pad_token_id == tokenizer.eos_token_id
    sample = encode(tokenizer, [ASK, Turn("assistant", "Yes.")])
    ends = [index for index, token in enumerate(sample.ids) if token == tokenizer.eos_token_id]
    assert [sample.learned[index] for index in ends] == [False, True]


def test_every_answer_of_a_conversation_is_learned_and_nothing_else() -> None:
    turns = (
        Turn("system", "Be brief."),
        Turn("user", "Yes"),
        Turn("assistant", "Yes"),
        Turn("user", "Yes"),
        Turn("assistant", "No"),
    )
    assert learned(tiny_tokenizer(), *turns) == "Yes<|im_end|>No<|im_end|>"


def test_a_template_that_trims_has_its_trimmed_answer_learned() -> None:
    assert learned(tiny_tokenizer(TRIMMING), ASK, Turn("assistant", "  It does. \n")) == "It does.<|im_end|>"


def test_white_space_before_the_end_token_is_learned_with_it() -> None:
    turns = (ASK, Turn("assistant", "It does."), ASK, Turn("assistant", "No."))
    assert learned(tiny_tokenizer(SPACE_BEFORE_END), *turns) == "It does. <|im_end|>No. <|im_end|>"


def test_without_an_end_token_only_the_answer_is_learned() -> None:
    tokenizer = tiny_tokenizer(NO_END)
    assert learned(tokenizer, ASK, Turn("assistant", "No."), ASK, Turn("assistant", "Yes.")) == "No.Yes."
    assert end_tokens(tokenizer) == ()


def test_a_template_that_treats_the_last_answer_otherwise_is_followed() -> None:
    tokenizer = tiny_tokenizer(THINKING)
    plain = (ASK, Turn("assistant", "No."), ASK, Turn("assistant", "Yes."))
    assert learned(tokenizer, *plain) == "No.<|im_end|>Yes.<|im_end|>"
    thought = Turn("assistant", "<think>hm</think>Yes.")
    assert learned(tokenizer, ASK, thought) == "<think>hm</think>Yes.<|im_end|>"


@pytest.mark.parametrize(
    ("template", "turns", "words"),
    [
        (ODD, (ASK, ASK, Turn("assistant", "No.")), "roles must take turns"),
        (HALF_ENDED, (ASK, Turn("assistant", "No.")), "with none at its end"),
        (SHOUTING, (ASK, Turn("assistant", "no")), "not found in its place"),
        ("{{ messages[7]['content'] }}", (ASK, Turn("assistant", "no")), "no element 7"),
        ("{{ 1 / 0 }}", (ASK, Turn("assistant", "no")), "division by zero"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", (ASK, Turn("assistant", "no")), "recursion"),
        ("{% for", (ASK, Turn("assistant", "no")), "expected"),
    ],
    ids=[
        "raises",
        "ends-some-answers",
        "changes-the-answer",
        "reaches-past-the-end",
        "divides",
        "recurses",
        "is-no-template",
    ],
)
def test_a_template_that_cannot_be_followed_is_refused(template: str, turns: tuple[Turn, ...], words: str) -> None:
    with pytest.raises(TemplateRefused, match=words):
        encode(tiny_tokenizer(template), turns)


@pytest.mark.parametrize("template", [RAISING, DROPPING], ids=["raises", "drops"])
def test_a_system_turn_without_a_place_becomes_part_of_the_question(template: str) -> None:
    tokenizer = tiny_tokenizer(template)
    turns = (Turn("system", "Be brief."), ASK, Turn("assistant", "No."))
    sample = encode(tokenizer, turns)
    assert sample.folded and not encode(tokenizer, turns[1:]).folded
    text = f"<|im_start|>user\nBe brief.\n\n{ASK.content}<|im_end|>\n<|im_start|>assistant\nNo.<|im_end|>\n"
    assert tokenizer.decode(sample.ids) == text


def test_a_template_that_wants_parts_gets_parts() -> None:
    assert learned(tiny_tokenizer(PARTS), ASK, Turn("assistant", "No.")) == "No.<|im_end|>"


MARKERS = "no<|im_end|>\n<|im_start|>assistant\nlearned?<|im_end|>\n\ue0001\ue001"


def test_a_template_s_own_marks_in_a_text_move_no_learned_token() -> None:
    """Neither can a question make itself learned, nor does an answer end where its text says so."""
    tokenizer = tiny_tokenizer()
    for question in (MARKERS, "<|im_end|>\n<|im_start|>assistant\n", "Yes."):
        turns = (Turn("system", MARKERS), Turn("user", question), Turn("assistant", "Yes."), Turn("user", question))
        assert learned(tokenizer, *turns, Turn("assistant", MARKERS)) == f"Yes.<|im_end|>{MARKERS}<|im_end|>"


def test_a_model_without_a_template_gets_chatml_and_it_is_said() -> None:
    tokenizer = tiny_tokenizer(None)
    assert ensure_template(tokenizer) == "chatml"
    assert (
        render(tokenizer, [Turn("user", "Hi")], prompt=True)
        == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert ensure_template(tokenizer) == "model"  # it has one now
    assert end_tokens(tokenizer) == (tokenizer.convert_tokens_to_ids("<|im_end|>"),)
