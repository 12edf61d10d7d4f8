"""Sentences for people, by key, in the language of the face that shows them.

The sentences are data: `assets/locales/<language>.json`, flat objects of key → text with `{name}` placeholders. Code
never holds a sentence. A test checks that all languages have the same keys and placeholders.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, get_args

from zeroboard.paths import ASSETS

Language = Literal["en", "zh-CN"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys instead of showing it, and what turns the direction of the text around it."""


def visible(text: str) -> str:
    """A text from elsewhere as it may be shown: what would command a terminal stands there as its number."""
    return _CONTROL.sub(lambda found: " " if found[0] == "\r" else ascii(found[0])[1:-1], text)


class _Forgiving(string.Formatter):
    """Fills placeholders; one without a value stays visible as {name} instead of raising in front of a user."""

    def get_value(self, key: int | str, args: Any, kwargs: Mapping[str, Any]) -> Any:
        if isinstance(key, str):
            value = kwargs.get(key, "{" + key + "}")
            return visible(value) if isinstance(value, str) else value
        return "{" + str(key) + "}"

    def format_field(self, value: Any, format_spec: str) -> Any:
        if isinstance(value, str) and format_spec:
            return value
        return super().format_field(value, format_spec)


_FORMATTER = _Forgiving()


@cache
def sentences(language: Language) -> Mapping[str, str]:
    """All sentences of a language, read once."""
    found: dict[str, str] = json.loads((ASSETS / "locales" / f"{language}.json").read_text(encoding="utf-8"))
    return found


def has(key: str, language: Language = "en") -> bool:
    return key in sentences(language)


def say(key: str, language: Language = "en", /, **params: Any) -> str:
    """The sentence of a key, filled. A key without a sentence returns itself, so that it is seen."""
    text = sentences(language).get(key)
    return key if text is None else _FORMATTER.vformat(text, (), params)
