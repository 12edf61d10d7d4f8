"""Names that transformers knows, and which of several templates is used."""

from __future__ import annotations

from zeroboard.modelfiles import TOKEN_FILES, VOCABULARIES, default_template


def test_what_decides_the_tokens_holds_every_vocabulary_once() -> None:
    assert set(VOCABULARIES) < set(TOKEN_FILES) and len(set(TOKEN_FILES)) == len(TOKEN_FILES)
    assert "chat_template.json" not in TOKEN_FILES, "no tokenizer reads it"


def test_of_several_templates_the_default_one_counts() -> None:
    several = [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}, "odd"]
    assert default_template(several) == "b"
    assert default_template("c") == "c"
    for none in (None, "", [], {}, 3, several[:1], [{"name": "default", "template": None}]):
        assert default_template(none) is None
