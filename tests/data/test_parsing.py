"""Fast where that is proved to be exact: every value as the standard library reads it, every repeated key found."""

from __future__ import annotations

import json
import math
import random

import pytest

from zeroboard.data.parsing import parse

PIECES = ('"', "\\", ":", '":', '\\":', " :", "{", "}", ",", "a", "\n", "\t", "é", "中", "\u2028", "")


def text(chance: random.Random) -> str:
    return "".join(chance.choices(PIECES, k=chance.randint(0, 6)))


def value(chance: random.Random, depth: int = 3) -> object:
    kind = chance.randrange(8 if depth else 5)
    if kind < 2:
        return text(chance)
    if kind < 5:
        return chance.choice([None, True, 0, -7, 2**60, 1.5, 10**25, ""])
    if kind == 5:
        return [value(chance, depth - 1) for _ in range(chance.randrange(4))]
    return {text(chance): value(chance, depth - 1) for _ in range(chance.randrange(5))}


def test_every_value_is_read_as_the_standard_library_reads_it() -> None:
    chance = random.Random(7)
    for _ in range(3000):
        made = value(chance)
        written = json.dumps(made, ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 1]))
        assert parse(written.encode()) == (made, None), written


def test_a_key_that_is_given_twice_is_found_wherever_it_hides() -> None:
    chance = random.Random(8)
    for _ in range(2000):
        key, colon = json.dumps(text(chance)), chance.choice([":", " :", "\n : "])
        inner = f"{{{key}{colon}{json.dumps(text(chance))},{key}:{json.dumps(value(chance, 1))}}}"
        outer = chance.choice(["%s", "[%s]", '{"x": ": \\":", "y": %s}', '[1, "\\\\", {"z": [%s]}]'])
        assert parse((outer % inner).encode())[1] == json.loads(key), inner


def test_the_last_of_two_equal_keys_counts() -> None:
    assert parse(b'{"a": 1, "a": 2}') == ({"a": 2}, "a")


@pytest.mark.parametrize(
    "written", ["12345678901234567890123", '{"a": 9007199254740993123}', '[1, {"b": 18446744073709551617}]']
)
def test_large_integers_keep_every_digit(written: str) -> None:
    assert parse(written.encode())[0] == json.loads(written)


def test_what_only_the_standard_library_reads_is_read() -> None:
    found = parse(b'{"loss": NaN, "half": "\\ud83d"}')[0]
    assert math.isnan(found["loss"]) and found["half"] == "\ud83d"
    digits = "9" * 5000
    assert parse(digits.encode())[0] == digits


def test_what_is_no_json_raises() -> None:
    for broken in (b"", b"{", b"{'a': 1}", b'{"a": 1,}', b"// no", b'{"a": "\t"}'):
        with pytest.raises(ValueError):
            parse(broken)
    with pytest.raises(UnicodeDecodeError):
        parse(b'{"a": "\xff"}')
    with pytest.raises(RecursionError):
        parse(b"[" * 6000 + b"]" * 6000)
