"""The sentences: the same in every language, and one for every key that the code names."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

import zeroboard
from zeroboard.contract.spec import fields
from zeroboard.messages import LANGUAGES, Language, has, say, sentences

PACKAGE = Path(zeroboard.__file__).parent
ROOTS = ("problem", "decision", "proof", "data", "header", "error", "field")
"""First words of the keys that this test looks for in the code."""
KEY = re.compile(rf"(?:{'|'.join(ROOTS)})(?:\.[a-z0-9_-]+)+")


def places(text: str) -> set[str]:
    """The placeholders of a sentence."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def literals() -> Iterator[tuple[str, str]]:
    """(file, text) of every string in the package that looks like the key of a sentence."""
    for file in PACKAGE.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        pieces = {id(value) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for value in node.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in pieces:
                yield file.relative_to(PACKAGE).as_posix(), node.value


def test_all_languages_have_the_same_keys() -> None:
    known = {language: set(sentences(language)) for language in LANGUAGES}
    for language in LANGUAGES:
        assert known[language] == known["en"], known[language] ^ known["en"]


def test_all_languages_have_the_same_placeholders() -> None:
    for key, text in sentences("en").items():
        for language in LANGUAGES:
            assert places(sentences(language)[key]) == places(text), key


def test_no_sentence_is_empty_and_chinese_is_chinese() -> None:
    for key, text in sentences("en").items():
        assert text.strip() and sentences("zh-CN")[key].strip(), key
    field_hints = [
        text for key, text in sentences("zh-CN").items() if key.startswith("field.") and key.endswith(".hint")
    ]
    assert field_hints and all(re.search(r"[\u4e00-\u9fff]", text) for text in field_hints)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_field_has_a_label_a_hint_and_its_choices(language: Language) -> None:
    for facts in fields():
        keys = [f"field.{facts.key}.label", f"field.{facts.key}.hint"]
        keys += [f"field.{facts.key}.choice.{choice}" for choice in facts.choices]
        assert [key for key in keys if not has(key, language)] == []


def test_every_field_that_has_sentences_is_a_field() -> None:
    known = {facts.key for facts in fields()}
    endings = (".label", ".hint")
    of_fields = [key for key in sentences("en") if key.startswith("field.") and key.endswith(endings)]
    assert {key.removeprefix("field.").rpartition(".")[0] for key in of_fields} == known


def test_every_key_that_the_code_names_has_a_sentence() -> None:
    keys = {(file, text) for file, text in literals() if KEY.fullmatch(text)}
    dotted = {facts.key for facts in fields()}
    missing = {
        (file, key)
        for file, key in keys
        if key not in dotted and not has(key) and not key.endswith((".json", ".jsonl", ".path", ".max_length"))
    }
    assert len(keys) > 60
    assert missing == set()


def test_every_problem_and_every_reason_about_data_comes_with_its_remedy() -> None:
    for root in ("problem.", "data.", "header."):
        keys = {key for key in sentences("en") if key.startswith(root)}
        without = {key for key in keys if not key.endswith(".remedy") and f"{key}.remedy" not in keys}
        assert without == set()


def test_a_sentence_is_filled_and_what_is_not_given_stays_visible() -> None:
    assert say("error.run-not-found", run="x") == "There is no run x."
    assert say("error.run-not-found") == "There is no run {run}."
    assert "x" in say("error.run-not-found", "zh-CN", run="x")


def test_numbers_are_formatted_and_a_text_in_their_place_is_no_error() -> None:
    key = "proof.other-size.optimizer"
    assert "1,234,567" in say(key, rank=0, measured=1234567, promised=1)
    assert "n/a" in say(key, rank=0, measured="n/a", promised=1)


def test_a_key_without_a_sentence_returns_itself() -> None:
    assert say("no.such.key", "zh-CN") == "no.such.key" and not has("no.such.key")
