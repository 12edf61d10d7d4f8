"""Quotations are short, in one line, and harmless."""

from __future__ import annotations

import datetime
import json

from zeroboard.data.excerpts import LONGEST, excerpt


def test_a_quotation_is_cut_and_in_one_line() -> None:
    assert excerpt({"a": "x" * 500, "b": [1, 2, 3, 4, 5, 6]}) == f'{{"a": "{"x" * 59}…", "b": [1, 2, 3, 4, "…"]}}'
    for value in ("y" * 10**6, {"k" * 900: ["z" * 900] * 900}, [[[[[[[["deep"]]]]]]]], {str(n): n for n in range(99)}):
        assert len(excerpt(value)) <= LONGEST
    assert excerpt("one\ntwo\tthree") == "one two three"


def test_nothing_in_a_quotation_commands_a_terminal_or_breaks_json() -> None:
    found = excerpt({"a": "\x1b[31mred\x07", "b": "\ud83d", "c": datetime.date(2026, 1, 2), "d": b"\0"})
    assert "\x1b" not in found and "\x07" not in found and "2026-01-02" in found
    assert json.loads(json.dumps(found, ensure_ascii=False).encode()) == found
    assert excerpt("bell \x07") == r"bell \x07"
