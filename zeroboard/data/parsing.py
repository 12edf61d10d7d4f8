"""JSON values out of bytes: exact, and fast where that can be proved to be exact.

orjson is fast and keeps the last of two equal keys in silence. But every key and every text stands between two
quotation marks, so a JSON text holds exactly two for each key and each text of its value, escaped ones apart, and more
where a key was given twice. Where that count fits, none was; where it does not, or cannot be told (a text that ends in
a backslash), the standard library reads the value once more and looks at every key. So it does where orjson would lose
something: NaN, half a pair of surrogates, integers beyond 64 bits.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import orjson

_EXACT = 2.0**53
"""From here on a float may stand for an integer that it does not equal."""
_TEXTS = frozenset((str,))
_DIGITS = sys.int_info.default_max_str_digits or 4300


def parse(text: bytes) -> tuple[Any, str | None]:
    """The value of a JSON text in UTF-8, and a key that it gives twice (None: none).

    Raises `UnicodeDecodeError` (a `ValueError`) where it is no UTF-8, `ValueError` or `RecursionError` where it is no
    JSON.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _careful(text)
    found = text.count(b'"')
    if b"\\" in text and b'\\"' in text:
        if b'\\\\"' in text:
            return _careful(text)
        found -= text.count(b'\\"')
    flat = type(value) is dict and _TEXTS.issuperset(map(type, value.values()))
    if found == (4 * len(value) if flat else _marks(value)):
        return value, None
    return _careful(text)


def _marks(value: Any) -> int:
    """How many quotation marks are around the keys and texts in it; -1 where a number may have lost digits."""
    found, rest = 0, [value]
    while rest:
        part = rest.pop()
        kind = type(part)
        if kind is str:
            found += 2
        elif kind is dict:
            found += 2 * len(part)
            rest.extend(part.values())
        elif kind is list:
            rest.extend(part)
        elif kind is float and abs(part) >= _EXACT:
            return -1
    return found


def _careful(text: bytes) -> tuple[Any, str | None]:
    repeated: list[str] = []

    def pairs(given: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(given)
        if len(found) < len(given) and not repeated:
            keys = [key for key, _ in given]
            repeated.append(next(key for key in keys if keys.count(key) > 1))
        return found

    value = json.loads(text.decode("utf-8"), object_pairs_hook=pairs, parse_int=_integer)
    return value, repeated[0] if repeated else None


def _integer(digits: str) -> int | str:
    """An integer; as its digits where it has thousands of them."""
    return int(digits) if len(digits) <= _DIGITS else digits
