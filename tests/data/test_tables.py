"""Tables: their delimiter, their names, and records that are not as they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.rows_of import codes, turns
from zeroboard.data.judge import judge
from zeroboard.data.tables import find_table


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize(("delimiter", "said"), [(",", None), ("\t", "TAB"), (";", ";"), ("|", "|")])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_cells_are_parted_by_any_of_four_marks(tmp_path: Path, delimiter: str, said: str | None, end: str) -> None:
    rows = [("instruction", "output"), ("One?", f'"1{delimiter} or ""uno"".\nIn two lines."'), ("Two?", "2")]
    report = judge(path := write(tmp_path / "d", end.join(delimiter.join(cells) for cells in rows)))
    assert (report.format, report.usable) == ("alpaca", 2)
    assert [p.params.get("delimiter") for p in report.problems] == ([said] if said else [])
    assert turns(path)[0] == [("user", "One?"), ("assistant", f'1{delimiter} or "uno".\nIn two lines.')]


def test_a_tab_in_a_tsv_is_no_guess(tmp_path: Path) -> None:
    assert judge(write(tmp_path / "d.tsv", "instruction\toutput\na\tb\n")).problems == ()


def test_a_quote_that_never_closes_costs_its_own_line_alone(tmp_path: Path) -> None:
    text = 'instruction,output\nOne,1\n"Two,2\nThree,3\n"Four ""4""",4\nFive,"5"x\nSix,6\n'
    report = judge(path := write(tmp_path / "d", text))
    assert (report.total, report.usable) == (6, 4)
    assert codes(report) == {"unbalanced-quotes": (2, 5)}
    assert report.problems[0].excerpt == '"Two,2'
    assert [turn[1][1] for turn in turns(path)] == ["1", "3", "4", "6"]


def test_records_with_too_many_or_too_few_cells_are_refused_and_named(tmp_path: Path) -> None:
    text = "instruction,input,output\na,,b\nc,,d,e\nf,g\nh,,i,,\n\nj,,k\n"
    report = judge(write(tmp_path / "d", text))
    assert (report.total, report.usable, codes(report)) == (5, 3, {"ragged-row": (2, 3)})


def test_names_are_known_in_two_languages_and_told(tmp_path: Path) -> None:
    report = judge(path := write(tmp_path / "d", "编号,问题,回答\n1,天空是什么颜色？,蓝色。\n"))
    assert codes(report) == {"columns-mapped": ()}
    assert report.problems[0].params["pairs"] == "问题 → instruction, 回答 → output"
    assert turns(path) == [[("user", "天空是什么颜色？"), ("assistant", "蓝色。")]]


def test_turns_in_a_cell_are_read_from_their_json(tmp_path: Path) -> None:
    cell = '"[{""role"": ""user"", ""content"": ""q""}, {""role"": ""assistant"", ""content"": ""a""}]"'
    report = judge(path := write(tmp_path / "d", f"id,messages\n1,{cell}\n"))
    assert (report.format, report.usable) == ("messages", 1)
    assert turns(path) == [[("user", "q"), ("assistant", "a")]]


def test_broken_letters_cost_their_record(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.write_bytes("instruction,output\nÜber?,Ja.\n".encode() + b"b\xff?,c\nd,e\n")
    assert codes(judge(path)) == {"broken-character": (2,)}


def test_prose_is_no_table() -> None:
    assert find_table("Dear reader, this is a letter.\nIt has commas, as letters have.\n", named=False) is None
    assert find_table("", named=False) is None
    unknown = find_table('first,second\n"a",b\nc,"d"\n', named=False)
    assert unknown is not None and unknown.columns == ("first", "second")


def test_two_columns_of_one_name_are_kept_apart() -> None:
    table = find_table("output,instruction,output\n", named=True)
    assert table is not None and table.columns == ("output", "instruction", "output (2)")
