"""Every original template that TRL ships is followed exactly or refused, and the document says which."""

from __future__ import annotations

import pytest

from tests.engine.templates import ASK, WORDS, all_tried, check, document, originals, table, tokenizer_for_all
from zeroboard.data.conversations import Turn
from zeroboard.engine.marking import encode
from zeroboard.engine.rendering import TemplateRefused
from zeroboard.messages import Language


def test_all_but_one_of_the_templates_are_followed_exactly() -> None:
    assert len(originals()) >= 40
    refused = {name: found.why for name, found in all_tried().items() if not found.exact}
    # GLM-4's ends an answer by the beginning of the next question, so its last answer has no end
    assert list(refused) == ["glm4moe"] and "none at its end" in refused["glm4moe"]
    ends = {name: found.end for name, found in all_tried().items()}
    known = {"llama3_1": "<|eot_id|>", "qwen3": "<|im_end|>", "gemma3": "<end_of_turn>", "phi3": "<|end|>"}
    assert known.items() <= ends.items() and ends["gptoss"] == "<|return|>"
    assert [name for name, found in all_tried().items() if not found.system] == ["gemma"]


@pytest.mark.parametrize("name", ["qwen3", "qwen3_5_think", "deepseekv3", "llama3_1"])
def test_thoughts_in_the_last_answer_are_learned_or_the_row_is_refused(name: str) -> None:
    """Qwen 3 writes them where they stand, Qwen 3.5 begins them itself; what drops them is not guessed."""
    tokenizer = tokenizer_for_all()
    tokenizer.chat_template = originals()[name]
    turns = (ASK, Turn("assistant", "<think>\nhm\n</think>\n\nYes."))
    if name == "deepseekv3":
        with pytest.raises(TemplateRefused, match="not found in its place"):
            check(tokenizer, turns)
        return
    sample = encode(tokenizer, turns)
    said = tokenizer.decode([token for token, learned in zip(sample.ids, sample.learned, strict=True) if learned])
    begun = "<think>\n" if name == "qwen3_5_think" else ""
    assert begun + said == turns[1].content + ("<|eot_id|>" if name == "llama3_1" else "<|im_end|>")


@pytest.mark.parametrize("language", list(WORDS))
def test_the_table_is_current(language: Language) -> None:
    assert document(language).read_text(encoding="utf-8") == table(language), (
        "write it anew: python -m tests.engine.templates"
    )
