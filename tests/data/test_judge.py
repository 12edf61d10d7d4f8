"""Everything that is wrong is counted and named with its rows."""

from __future__ import annotations

import json
from pathlib import Path

from tests.data.rows_of import alpaca, chat, codes, lines, turns
from zeroboard.data.judge import judge


def test_each_kind_of_bad_answer_is_named_with_its_rows(tmp_path: Path) -> None:
    missing = {"instruction": "q", "input": ""}
    path = lines(
        tmp_path / "d",
        alpaca(),
        alpaca(None),
        alpaca(""),
        alpaca({"a": 1}),
        missing,
        alpaca(["x"]),
        alpaca(5),
        alpaca(" "),
    )
    report = judge(path)
    assert (report.total, report.usable, report.refused, report.changed) == (8, 2, 6, 1)
    assert codes(report) == {
        "missing-output": (2, 5),
        "empty-output": (3, 8),
        "non-text-output": (4, 6),
        "mixed-types": (7,),
    }
    assert turns(path)[1] == [("user", "A question?"), ("assistant", "5")]


def test_at_most_twenty_rows_are_named_and_all_are_counted(tmp_path: Path) -> None:
    report = judge(lines(tmp_path / "d", alpaca(), *[alpaca("")] * 50))
    (problem,) = report.problems
    assert problem.excerpt == '{"instruction": "A question?", "input": "", "output": ""}'
    assert problem.count == 50 and problem.rows == tuple(range(2, 22))


def test_a_refused_row_is_an_error_a_mended_one_a_warning_and_both_are_counted(tmp_path: Path) -> None:
    mended = chat(("user", "q"), ("assistant", "a"), ("user", "?"))
    path = lines(tmp_path / "d", chat(("user", "r"), ("assistant", "b")), mended, chat(("user", "q")))
    report = judge(path)
    assert (report.total, report.usable, report.refused, report.changed) == (3, 2, 1, 1)
    assert [(p.code, p.severity, p.rows) for p in report.problems] == [
        ("ends-with-user", "warning", (2,)),
        ("ends-with-user", "error", (3,)),
    ]
    assert len({p.message_key for p in report.problems}) == 2
    codes(report)


def test_of_a_refused_row_only_the_reason_is_told(tmp_path: Path) -> None:
    path = lines(tmp_path / "d", chat(("user", "q"), ("assistant", "a")), chat(("user", None), ("assistant", 5)))
    assert codes(judge(path)) == {"non-text-content": (2,)}


def test_a_file_that_is_refused_whole_has_nothing_usable(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.write_text(json.dumps([alpaca()] * 5)[:-1] + ",")
    report = judge(path)
    assert (report.format, report.total, report.usable, report.refused) == ("alpaca", 6, 0, 6)
    assert codes(report) == {"not-json": (6,)}


def test_the_format_is_that_of_the_first_record_that_has_one(tmp_path: Path) -> None:
    path = lines(tmp_path / "d", {"x": 1}, alpaca(), chat(("user", "q"), ("assistant", "a")))
    report = judge(path)
    assert report.format == "alpaca" and report.usable == 1
    assert set(codes(report)) == {"missing-output"}
