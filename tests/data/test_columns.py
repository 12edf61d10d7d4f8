"""Names of columns in two languages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.data.rows_of import codes, lines, turns
from zeroboard.data.columns import choose, mapping
from zeroboard.data.conversations import conversations
from zeroboard.data.judge import judge


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["Question", "Answer"], {"Question": "instruction", "Answer": "output"}),
        (
            ["System Prompt", "user-input", "response"],
            {"System Prompt": "system", "user-input": "instruction", "response": "output"},
        ),
        (["问题", "回答"], {"问题": "instruction", "回答": "output"}),
        (["对话"], {"对话": "conversations"}),
        (["output", "answer", "query"], {"query": "instruction"}),
        (["query", "question"], {"query": "instruction"}),
        (["instruction", "output", "id"], {}),
    ],
)
def test_names_are_recognised(names: list[str], found: dict[str, str]) -> None:
    assert mapping(names) == found


def test_a_mapping_is_told_and_is_that_of_the_whole_file(tmp_path: Path) -> None:
    path = lines(tmp_path / "d", {"prompt": "q", "response": "a"}, {"prompt": "r", "response": None}, {"other": 1})
    report = judge(path)
    assert (report.format, report.usable) == ("alpaca", 1)
    assert codes(report) == {"columns-mapped": (), "missing-output": (2, 3)}
    assert turns(path) == [[("user", "q"), ("assistant", "a")]]


def test_chinese_turns_are_read(tmp_path: Path) -> None:
    path = lines(tmp_path / "d", {"对话": [{"role": "用户", "content": "问"}, {"role": "助手", "content": "答"}]})
    assert turns(path) == [[("user", "问"), ("assistant", "答")]]


def told(path: Path, columns: dict[str, str]) -> list[list[tuple[str, str]]]:
    return [[(turn.role, turn.content) for turn in c.turns] for c in conversations(path, columns)]


def test_columns_that_nobody_knows_are_read_as_a_person_says(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("Anliegen,Entgegnung,Lage\nHi,Hallo,Sei nett\nTag,Guten Tag,\n")
    plain = judge(path)
    assert codes(plain) == {"unknown-format": ()} and plain.columns == ("Anliegen", "Entgegnung", "Lage")
    columns = {"instruction": "Anliegen", "output": "Entgegnung", "system": "Lage"}
    report = judge(path, columns=columns)
    assert (report.format, report.usable, report.total) == ("alpaca", 2, 2)
    (mapped,) = report.problems
    assert mapped.code == "columns-mapped" and "Entgegnung → output" in str(mapped.params["pairs"])
    assert told(path, columns) == [
        [("system", "Sei nett"), ("user", "Hi"), ("assistant", "Hallo")],
        [("user", "Tag"), ("assistant", "Guten Tag")],
    ]


def test_what_is_chosen_goes_before_what_is_recognised(tmp_path: Path) -> None:
    path = lines(tmp_path / "d", {"text": "no", "question": "Which?", "output": "no", "best": "This."})
    assert judge(path).format == "text"
    assert told(path, {"output": "best"}) == [[("user", "Which?"), ("assistant", "This.")]]
    names = choose(["text", "question", "output", "best"], {"output": "best"})
    assert names.pairs == {"best": "output", "question": "instruction"}
    swapped = lines(tmp_path / "s", {"instruction": "This.", "output": "Which?"})
    assert told(swapped, {"instruction": "output", "output": "instruction"}) == [
        [("user", "Which?"), ("assistant", "This.")]
    ]


def test_a_column_that_is_not_there_is_named_beside_those_that_are(tmp_path: Path) -> None:
    path = lines(tmp_path / "d", {"instruction": "Which?", "output": "This."})
    report = judge(path, columns={"output": "Antwort"})
    (problem,) = report.problems
    assert (report.usable, problem.code, problem.severity) == (0, "unknown-format", "error")
    assert problem.params["absent"] == "Antwort" and problem.params["keys"] == "instruction, output"


def test_names_that_cannot_be_written_are_not_offered(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(json.dumps({"\ud800": "a", "": "b", "x" * 300: "c", "Frage": "d"}))
    assert judge(path).columns == ("Frage",)
