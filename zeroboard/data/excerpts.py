"""A record as one short line, to quote from it: cut, and without anything that a terminal would obey."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

from zeroboard.messages import visible

LONGEST = 200
"""Characters of an excerpt."""
_TEXT = 60
"""Characters of each text in it."""
_PARTS = 4
"""Entries of each list in it."""


def excerpt(value: Any) -> str:
    """The beginning of a record."""
    text = value if isinstance(value, str) else json.dumps(_short(value, 6), ensure_ascii=False, default=str)
    return harmless(_cut(" ".join(text[: 4 * LONGEST].split()), LONGEST))


def harmless(text: str) -> str:
    """A text from elsewhere without what a terminal would obey and what UTF-8 cannot say."""
    return visible(text).encode("utf-8", "replace").decode()


def _short(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _cut(value, _TEXT)
    if isinstance(value, Mapping):
        if not depth:
            return "…"
        return {_cut(str(key), _TEXT): _short(part, depth - 1) for key, part in islice(value.items(), 2 * _PARTS)}
    if isinstance(value, list):
        if not depth:
            return "…"
        rest = ["…"] if len(value) > _PARTS else []
        return [_short(part, depth - 1) for part in value[:_PARTS]] + rest
    return value


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
