"""Names of columns in two languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.rows_of import codes, lines, turns
from zeroboard.data.columns import mapping
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
