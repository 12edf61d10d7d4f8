"""JSON values out of bytes: exact, and fast where that can be proved to be exact.

orjson is fast and keeps the last of two equal keys in silence. Each key of an object ends in `":` (or in white space
between the two), so the text cannot hold fewer of these than it has keys; where it holds exactly as many as the parsed
value has keys, none was given twice. Where that proof fails (a text that begins with a colon, quotes in code) the
standard library reads the value once more and looks at every key. So it does where orjson would lose something: NaN,
half a pair of surrogates, integers beyond 64 bits.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import orjson

_SPACED = re.compile(rb'"[ \t\r\n]+:')
"""A key with white space before its colon."""
_EXACT = 2.0**53
"""From here on a float may stand for an integer that it does not equal."""
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
    keys = _keys(value)
    if keys is not None and keys == _key_ends(text):
        return value, None
    return _careful(text)


def _keys(value: Any) -> int | None:
    """How many keys the objects in it have; None where a number may have lost digits."""
    if type(value) is dict and not any(type(part) in _DEEP for part in value.values()):
        return len(value)
    found, rest = 0, [value]
    while rest:
        part = rest.pop()
        if type(part) is dict:
            found += len(part)
            rest.extend(inner for inner in part.values() if type(inner) in _DEEP)
        elif type(part) is list:
            rest.extend(inner for inner in part if type(inner) in _DEEP)
        elif type(part) is float and abs(part) >= _EXACT:
            return None
    return found


_DEEP = frozenset((dict, list, float))


def _key_ends(text: bytes) -> int:
    """How many `":` stand outside of texts, at least; -1 where a key may end otherwise."""
    found = text.count(b'":')
    if b'\\":' in text:
        if b'\\\\":' in text:
            return -1
        found -= text.count(b'\\":')
    if (b" :" in text or b"\t:" in text or b"\n:" in text or b"\r:" in text) and _SPACED.search(text):
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
