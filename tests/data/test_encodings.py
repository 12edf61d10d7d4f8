"""In what a file is written is found, and a guess is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.data.rows_of import alpaca, codes, turns
from zeroboard.data.judge import judge

FRENCH = "Où est la bibliothèque ? Là-bas, près de l’église."
CHINESE = "请问图书馆在哪里？就在前面，靠近学校的地方。"


@pytest.mark.parametrize(
    ("encoding", "text", "name", "told"),
    [
        ("utf-8", CHINESE, "utf-8", set()),
        ("utf-8-sig", FRENCH, "utf-8-sig", {"bom-removed"}),
        ("gb18030", CHINESE, "gb18030", {"encoding-guessed"}),
        ("cp1252", FRENCH, "cp1252", {"encoding-guessed"}),
        ("utf-16", CHINESE, "utf-16-le", {"bom-removed"}),
        ("utf-16-be", "Plain letters alone", "utf-16-be", {"encoding-guessed"}),
        ("utf-32", FRENCH, "utf-32-le", {"bom-removed"}),
    ],
)
@pytest.mark.parametrize("form", ["array", "lines", "csv"])
def test_each_encoding_is_read_in_full(
    tmp_path: Path, encoding: str, text: str, name: str, told: set[str], form: str
) -> None:
    rows = [alpaca(f"{text} {number}") for number in range(3)]
    written = {
        "array": json.dumps(rows, ensure_ascii=False),
        "lines": "\n".join(json.dumps(row, ensure_ascii=False) for row in rows),
        "csv": "instruction,output\n" + "".join(f'{row["instruction"]},"{row["output"]}"\n' for row in rows),
    }
    path = tmp_path / "d"
    path.write_bytes(written[form].encode(encoding))
    report = judge(path)
    assert (report.encoding, report.usable, set(codes(report))) == (name, 3, told)
    assert [turn[1][1] for turn in turns(path)] == [row["output"] for row in rows]


def test_the_first_letter_that_is_not_plain_may_come_late(tmp_path: Path) -> None:
    path = tmp_path / "d"
    plain = [json.dumps(alpaca("x" * 500 + str(number))) for number in range(2500)]
    path.write_bytes("\n".join([*plain, json.dumps(alpaca(FRENCH), ensure_ascii=False)]).encode("cp1252"))
    report = judge(path)
    assert (report.encoding, report.usable) == ("cp1252", 2501)


def test_a_broken_letter_among_whole_ones_turns_nothing_into_another_code_page(tmp_path: Path) -> None:
    path = tmp_path / "d"
    good = json.dumps(alpaca(CHINESE), ensure_ascii=False).encode()
    path.write_bytes(good + b"\n" + good.replace("图".encode(), b"\xe5\x9b") + b"\n")
    report = judge(path)
    assert (report.encoding, report.usable, codes(report)) == ("utf-8", 1, {"broken-character": (2,)})


def test_what_another_encoding_cannot_say_is_told(tmp_path: Path) -> None:
    path = tmp_path / "d"
    good = json.dumps(alpaca(CHINESE), ensure_ascii=False).encode("gb18030")
    path.write_bytes((good + b"\n") * 30 + good.replace("前".encode("gb18030"), b"\xff\xff"))
    report = judge(path)
    assert (report.encoding, report.usable) == ("gb18030", 31)
    assert codes(report) == {"encoding-guessed": (), "broken-character": (31,)}
