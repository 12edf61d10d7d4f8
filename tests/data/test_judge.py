"""Everything that is wrong is counted and named with its rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.data.rows_of import alpaca, chat, codes, lines, turns
from zeroboard.contract.mix import DataPart, Mix
from zeroboard.data.conversations import conversations
from zeroboard.data.judge import judge
from zeroboard.errors import NotFound, Refused


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


def mixed(*paths: Path, held_out: Path | None = None) -> Mix:
    held = DataPart(path=str(held_out)) if held_out is not None else None
    return Mix(more=tuple(DataPart(path=str(path)) for path in paths), held_out=held)


def test_files_of_several_formats_are_judged_as_one_and_counted_each(tmp_path: Path) -> None:
    first = lines(tmp_path / "a.jsonl", alpaca(), alpaca(""), alpaca("Another."))
    (tmp_path / "b").mkdir()
    lines(tmp_path / "b" / "a.jsonl", chat(("user", "q"), ("assistant", "a"), ("user", "?")))
    lines(tmp_path / "b" / "z.jsonl", {"text": "A page."})
    second = tmp_path / "c.jsonl"
    lines(second, {"Anliegen": "q", "Entgegnung": "a"}, alpaca())
    named = DataPart(path=str(second), columns={"instruction": "Anliegen", "output": "Entgegnung"})
    mix = Mix(more=(DataPart(path=str(tmp_path / "b")), named))
    told: list[float] = []
    report = judge(first, mix=mix, on_progress=told.append)
    assert [(f.name, f.format, f.first, f.rows, f.usable, f.changed, f.refused, f.part) for f in report.files] == [
        ("a.jsonl", "alpaca", 1, 3, 2, 0, 1, 0),
        ("b/a.jsonl", "messages", 4, 1, 1, 1, 0, 1),
        ("b/z.jsonl", "text", 5, 1, 1, 0, 0, 1),
        ("c.jsonl", "alpaca", 6, 2, 1, 0, 1, 2),
    ]
    assert (report.total, report.usable, report.changed) == (7, 5, 1) and told == sorted(told) and told[-1] == 1.0
    assert {c.row for c in conversations(first, mix=mix)} == {1, 3, 4, 5, 6}, "training numbers the rows alike"


def test_a_copy_in_another_file_is_a_copy(tmp_path: Path) -> None:
    first = lines(tmp_path / "a.jsonl", alpaca("one"), alpaca("two"))
    second = lines(tmp_path / "b.jsonl", alpaca("two"), alpaca("three"), alpaca("one"))
    report = judge(first, mix=mixed(second))
    assert [(p.code, p.count, p.rows) for p in report.problems] == [("duplicate-row", 2, (3, 5))]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("", "empty-file"),
        ('{"prompt": "q", "chosen": "a", "rejected": "b"}\n' * 3, "unknown-format"),
        ("[{", "not-json"),
    ],
)
def test_one_file_that_cannot_be_trained_on_refuses_them_all_and_is_named(
    tmp_path: Path, content: str, code: str
) -> None:
    bad, good = tmp_path / "bad.json", lines(tmp_path / "good.jsonl", alpaca(), alpaca("Another."))
    bad.write_text(content)
    for first, second in ((bad, good), (good, bad)):
        report = judge(first, mix=mixed(second))
        assert (report.usable, report.changed) == (0, 0) and not report.trainable
        assert [(p.code, p.file) for p in report.problems if p.severity == "error"] == [(code, "bad.json")]
        assert sum(file.usable for file in report.files) == 2
        with pytest.raises(Refused):
            list(conversations(first, mix=mixed(second)))


def test_files_of_one_name_are_told_apart_by_their_paths(tmp_path: Path) -> None:
    paths = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        paths.append(lines(tmp_path / folder / "rows.jsonl", alpaca(folder)))
    report = judge(paths[0], mix=mixed(paths[1]))
    assert [file.name for file in report.files] == [str(path) for path in paths]


def test_the_evaluation_file_is_judged_alike_and_what_is_trained_on_is_found_in_it(tmp_path: Path) -> None:
    first, second = (lines(tmp_path / name, alpaca(name)) for name in ("a.jsonl", "b.jsonl"))
    held_out = lines(
        tmp_path / "c.jsonl", alpaca("new"), alpaca(""), alpaca("b.jsonl"), alpaca("new"), alpaca("a.jsonl")
    )
    report = judge(first, mix=mixed(second, held_out=held_out))
    held = report.evaluation
    assert (report.total, report.problems) == (2, ()) and held is not None
    assert (held.total, held.usable, held.refused, held.overlap) == (5, 4, 1, 2)
    assert [(p.code, p.count, p.rows) for p in held.problems] == [
        ("empty-output", 1, (2,)),
        ("evaluation-overlap", 2, (3, 5)),
        ("duplicate-row", 1, (4,)),
    ]
    codes(held)
    pairs = lines(tmp_path / "d.jsonl", {"prompt": "q", "chosen": "a", "rejected": "b"})
    refused = judge(first, mix=mixed(held_out=pairs)).evaluation
    assert refused is not None and not refused.trainable and set(codes(refused)) == {"unknown-format"}
    with pytest.raises(NotFound):
        judge(first, mix=mixed(held_out=tmp_path / "none"))
