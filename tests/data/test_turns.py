"""Turns are mended where they can be, refused where not, and everything is told."""

from __future__ import annotations

import json
from pathlib import Path

from tests.data.rows_of import alpaca, chat, codes, lines, turns
from zeroboard.data.judge import judge


def test_turns_out_of_order_are_mended_and_told(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "d",
        chat(("user", "a"), ("user", "b"), ("assistant", "c")),
        chat(("assistant", "a"), ("user", "b"), ("assistant", "c")),
        chat(("user", "b"), ("assistant", "c"), ("user", "d")),
        chat(("user", "a"), ("system", "s"), ("assistant", "c")),
    )
    report = judge(path)
    assert (report.usable, report.changed) == (4, 4)
    assert codes(report) == {"role-order": (1, 4), "starts-with-assistant": (2,), "ends-with-user": (3,)}
    assert turns(path) == [
        [("user", "a\nb"), ("assistant", "c")],
        [("user", "b"), ("assistant", "c")],
        [("user", "b"), ("assistant", "c")],
        [("system", "s"), ("user", "a"), ("assistant", "c")],
    ]


def test_conversations_without_an_answer_or_a_question_are_refused(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "d",
        chat(("user", "q"), ("assistant", "a")),
        chat(("user", "q")),
        {"messages": []},
        chat(("user", " "), ("assistant", "a")),
        chat(("user", "q"), ("assistant", "")),
        chat(("user", "q"), ("assistant", "a"), ("user", "q"), ("assistant", None)),
    )
    report = judge(path)
    assert (report.usable, report.refused) == (1, 5)
    assert codes(report) == {
        "ends-with-user": (2,),
        "empty-conversation": (3, 4),
        "empty-output": (5,),
        "missing-output": (6,),
    }


def test_what_a_text_model_cannot_learn_is_refused(tmp_path: Path) -> None:
    picture = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "x"}}]
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    path = lines(
        tmp_path / "d",
        chat(("user", picture), ("assistant", "a")),
        chat(("narrator", "x"), ("user", "q"), ("assistant", "a")),
        {"messages": [{"role": "user", "content": "q"}, call]},
        chat(("user", None), ("assistant", "a")),
        chat(("user", "q"), ("assistant", "a")),
    )
    report = judge(path)
    assert report.usable == 1
    assert codes(report) == {"non-text-content": (1, 4), "unknown-role": (2,), "tool-call-malformed": (3,)}
    assert [p.params["details"] for p in report.problems if p.code == "unknown-role"] == ["narrator"]


def test_fields_that_training_would_lose_are_told(tmp_path: Path) -> None:
    row = chat(("user", "q"), ("assistant", "a"))
    row["messages"][1]["reasoning_content"] = "because"
    parts = [{"type": "reasoning", "value": "because"}, {"type": "text", "value": "a"}]
    weighed = chat(("user", "q"), ("assistant", "a"))
    weighed["messages"][1]["weight"] = 0.5
    path = lines(tmp_path / "d", row, chat(("user", "q"), ("assistant", parts)), weighed)
    report = judge(path)
    assert report.usable == 3 and codes(report) == {"ignored-field": (1, 2, 3)}
    assert report.problems[0].params["details"] == "reasoning_content, reasoning, weight 0.5"
    assert report.problems[0].severity == "warning"


def test_characters_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.write_bytes(
        json.dumps(alpaca("Ünïcode"), ensure_ascii=False).encode()
        + b'\n{"instruction": "q", "output": "\\ud83d"}\n{"instruction": "q", "output": "\xff"}\n'
    )
    report = judge(path)
    assert report.usable == 1 and codes(report) == {"broken-character": (2, 3)}
