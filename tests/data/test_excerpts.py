"""Quotations are short, in one line, and harmless."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

from zeroboard.contract.reports import DataReport
from zeroboard.data.excerpts import LONGEST, excerpt
from zeroboard.data.judge import judge
from zeroboard.messages import LANGUAGES, say


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


def test_names_that_utf8_cannot_say_are_told_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    for content in (b'{"\\ud83d": 1, "\\u001b[31m": 2}\n', "größe,".encode() + b"\xff\n1,2\n3,4\n"):
        path.write_bytes(content)
        report = judge(path)
        assert not report.usable and report.problems
        for problem in report.problems:
            for language in LANGUAGES:
                sentence = say(problem.message_key, language, **problem.params)
                assert sentence.encode() and "\x1b" not in sentence
        assert DataReport.model_validate_json(report.model_dump_json()) == report
