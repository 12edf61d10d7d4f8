"""One row of each format becomes a conversation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.rows_of import alpaca, chat, codes, lines, turns
from zeroboard.data.judge import judge
from zeroboard.data.rows import recognise


def test_alpaca_joins_instruction_and_input_and_keeps_system_and_history(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "d",
        {"instruction": "Translate.", "input": "Hello", "output": "Hallo"},
        {"instruction": "And?", "output": "Yes.", "system": "Be brief.", "history": [["Hi", "Ho"]]},
    )
    assert turns(path) == [
        [("user", "Translate.\nHello"), ("assistant", "Hallo")],
        [("system", "Be brief."), ("user", "Hi"), ("assistant", "Ho"), ("user", "And?"), ("assistant", "Yes.")],
    ]
    assert (judge(path).format, judge(path).usable, judge(path).problems) == ("alpaca", 2, ())


def test_sharegpt_knows_the_usual_names(tmp_path: Path) -> None:
    pairs = [("human", "gpt"), ("User", "Assistant"), ("user", "chatgpt"), ("prompter", "bot")]
    rows = [{"conversations": [{"from": a, "value": "q"}, {"from": b, "value": "a"}]} for a, b in pairs]
    path = lines(tmp_path / "d", *rows)
    assert turns(path) == [[("user", "q"), ("assistant", "a")]] * 4
    assert judge(path).format == "sharegpt" and judge(path).changed == 0


def test_messages_take_texts_and_lists_of_text_parts(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "value": "two"}]
    path = lines(tmp_path / "d", chat(("developer", "S"), ("user", parts), ("assistant", "a")))
    assert turns(path) == [[("system", "S"), ("user", "one two"), ("assistant", "a")]]
    assert judge(path).problems == () and judge(path).changed == 0


def test_prompt_and_completion_are_a_question_and_an_answer(tmp_path: Path) -> None:
    path = lines(tmp_path / "d", {"prompt": "q", "completion": "a"})
    assert turns(path) == [[("user", "q"), ("assistant", "a")]]
    assert judge(path).format == "prompt-completion"


def test_preference_pairs_and_plain_text_are_recognised(tmp_path: Path) -> None:
    assert judge(lines(tmp_path / "a", {"prompt": "q", "chosen": "a", "rejected": "b"})).format == "preference"
    assert judge(lines(tmp_path / "b", {"text": "a page"})).format == "text"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"instruction": "q", "output": "a"}, "alpaca"),
        ({"instruction": "q", "input": ""}, "alpaca"),
        ({"messages": []}, "messages"),
        ({"conversations": [{"from": "human", "value": "q"}]}, "sharegpt"),
        ({"conversations": [{"role": "user", "content": "q"}]}, "messages"),
        ({"conversations": [], "chosen": {}, "rejected": {}}, "preference"),
        ({"prompt": "q", "completion": "a"}, "prompt-completion"),
        ({"text": "x", "meta": {}}, "text"),
        ({"text": "x", "label": 1}, "unknown"),
        ({"messages": "q"}, "unknown"),
        ({"question": "q", "answer": "a"}, "unknown"),
        (["instruction", "output"], "unknown"),
        ("messages", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_format_is_recognised_by_the_keys(value: object, kind: str) -> None:
    assert recognise(value) == kind


def test_a_record_that_is_no_object_is_refused_among_good_ones(tmp_path: Path) -> None:
    path = lines(tmp_path / "d", alpaca(), ["not", "an", "object"], alpaca())
    report = judge(path)
    assert (report.total, report.usable) == (3, 2) and codes(report) == {"unknown-format": (2,)}
    assert report.problems[0].message_key == "data.unknown-format.row"


def test_a_history_that_is_no_list_of_pairs_is_refused(tmp_path: Path) -> None:
    path = lines(tmp_path / "d", alpaca(), alpaca(history="x"), alpaca(history=[["one"]]), alpaca(history=[]))
    assert codes(judge(path)) == {"non-text-content": (2, 3)}


def test_a_null_beside_the_question_is_nothing(tmp_path: Path) -> None:
    row = {"instruction": "q", "input": None, "system": None, "history": None, "output": "a"}
    assert turns(lines(tmp_path / "d", row)) == [[("user", "q"), ("assistant", "a")]]
