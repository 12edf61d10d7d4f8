"""Data files, judged: everything that is wrong is named with its rows, and what is usable becomes conversations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zeroboard.contract.reports import DataReport
from zeroboard.data.conversations import Turn, conversations
from zeroboard.data.judge import judge
from zeroboard.errors import NotFound, Refused
from zeroboard.messages import LANGUAGES, has, say


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def alpaca(output: Any = "An answer.", **more: Any) -> dict[str, Any]:
    return {"instruction": "A question?", "input": "", "output": output, **more}


def chat(*turns: tuple[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


def codes(report: DataReport) -> dict[str, tuple[int, ...]]:
    """Code → rows; every problem's sentence must be there in every language, filled to the last place."""
    for problem in report.problems:
        for language in LANGUAGES:
            assert has(problem.message_key, language), problem.message_key
            assert "{" not in say(problem.message_key, language, **problem.params)
            assert has(f"{problem.message_key}.remedy", language), problem.message_key
    return {problem.code: problem.rows for problem in report.problems}


def turns(path: Path) -> list[list[tuple[str, str]]]:
    return [[(turn.role, turn.content) for turn in c.turns] for c in conversations(path)]


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
    assert problem.count == 50 and problem.rows == tuple(range(2, 22))


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
    assert codes(report) == {"non-text-content": (1, 3, 4), "unknown-role": (2,)}
    assert [p.params["details"] for p in report.problems if p.code == "unknown-role"] == ["narrator"]


def test_fields_that_training_would_lose_are_told(tmp_path: Path) -> None:
    row = chat(("user", "q"), ("assistant", "a"))
    row["messages"][1]["reasoning_content"] = "because"
    path = lines(tmp_path / "d", row, {**chat(("user", "q"), ("assistant", "a")), "tools": [{"name": "x"}]})
    report = judge(path)
    assert report.usable == 2 and codes(report) == {"ignored-field": (1, 2)}
    assert report.problems[0].severity == "warning"


def test_a_byte_order_mark_is_removed_and_told(tmp_path: Path) -> None:
    path = tmp_path / "d"
    for text in (json.dumps([alpaca()]), json.dumps(alpaca())):
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
        report = judge(path)
        assert report.usable == 1 and codes(report) == {"bom-removed": ()}
        assert report.problems[0].severity == "info"


def test_shape_is_recognised_by_content_whatever_the_name(tmp_path: Path) -> None:
    rows = [alpaca(), alpaca("Ünïcode 中文")]
    forms = {
        "array.jsonl": json.dumps(rows, indent=2),
        "lines.json": "\n\n".join(json.dumps(row) for row in rows) + "\r\n",
        "objects.txt": "\n".join(json.dumps(row, indent=1) for row in rows),
    }
    for name, text in forms.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        report = judge(tmp_path / name)
        assert (report.format, report.total, report.usable, report.problems) == ("alpaca", 2, 2, ()), name


def test_a_broken_line_costs_itself_alone(tmp_path: Path) -> None:
    good = json.dumps(alpaca())
    path = tmp_path / "d"
    deep = '{"output":' + "[" * 6000 + "]" * 6000 + "}"
    path.write_text("\n".join(["// a comment", good, '{"instruction": "q"', deep, good]))
    report = judge(path)
    assert (report.total, report.usable) == (5, 2)
    assert codes(report) == {"not-json": (1, 3, 4)}
    assert [c.row for c in conversations(path)] == [2, 5]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.write_text(json.dumps(alpaca("a\u2028b\u0085c"), ensure_ascii=False) + "\n", encoding="utf-8")
    assert turns(path) == [[("user", "A question?"), ("assistant", "a\u2028b\u0085c")]]


def test_characters_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.write_bytes(
        json.dumps(alpaca()).encode()
        + b'\n{"instruction": "q", "output": "\\ud83d"}\n{"instruction": "q", "output": "\xff"}\n'
    )
    report = judge(path)
    assert report.usable == 1 and codes(report) == {"broken-character": (2, 3)}


@pytest.mark.parametrize(
    "text", ['[{"instruction": "q", "output": "a"},]', '[{"instruction": "q", "output": "a"}', "[", "[1] 2"]
)
def test_an_array_that_breaks_is_refused_whole(tmp_path: Path, text: str) -> None:
    path = tmp_path / "d"
    path.write_text(text)
    report = judge(path)
    assert report.usable == 0 and codes(report).keys() <= {"not-json", "unknown-format"}
    with pytest.raises(Refused) as refused:
        list(conversations(path))
    assert refused.value.problems[0].code == "data-refused"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty-file"),
        (b"\xef\xbb\xbf", "empty-file"),
        (b" \n\n ", "empty-file"),
        (b"[]", "empty-file"),
        (b"PK\x03\x04rest", "not-a-data-file"),
        (b"\x1f\x8b\x08rest", "not-a-data-file"),
        (b"%PDF-1.7", "not-a-data-file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "not-a-data-file"),
        (b"<!doctype html><html></html>", "not-a-data-file"),
        (b"\x80\x04\x95", "not-a-data-file"),
        (b'\xff\xfe[\x00"\x00', "not-a-data-file"),
        (b"instruction,output\nq,a\n", "unknown-format"),
        (b'"see the other folder"', "unknown-format"),
        (b'["a", "b"]', "unknown-format"),
        (b'{"question": "q", "reply": "a"}', "unknown-format"),
        (b'{"text": "a page"}', "unknown-format"),
        (b'{"prompt": "q", "chosen": "a", "rejected": "b"}', "unknown-format"),
        (b"{'instruction': 'q', 'output': 'a'}", "not-json"),
        (b'[{"instruction": "q", "output": "\xe9"}]', "not-json"),
    ],
)
def test_a_file_that_is_no_data_is_refused_by_name(tmp_path: Path, content: bytes, code: str) -> None:
    path = tmp_path / "d"
    path.write_bytes(content)
    report = judge(path)
    assert report.usable == 0
    assert [p.code for p in report.problems if p.severity == "error"] == [code]
    codes(report)
    with pytest.raises(Refused):
        list(conversations(path))


def test_preference_pairs_and_plain_text_are_recognised(tmp_path: Path) -> None:
    assert judge(lines(tmp_path / "a", {"prompt": "q", "chosen": "a", "rejected": "b"})).format == "preference"
    assert judge(lines(tmp_path / "b", {"text": "a page"})).format == "text"


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        judge(tmp_path / "none")
    with pytest.raises(NotFound):
        list(conversations(tmp_path))


def test_progress_reaches_one(tmp_path: Path) -> None:
    for form in ("lines", "array"):
        path = tmp_path / form
        rows = [alpaca()] * 2500
        path.write_text("\n".join(map(json.dumps, rows)) if form == "lines" else json.dumps(rows))
        seen: list[float] = []
        judge(path, on_progress=seen.append)
        assert len(seen) >= 3 and seen == sorted(seen) and seen[-1] == 1.0, form


def test_judging_and_reading_agree(tmp_path: Path) -> None:
    rows = [alpaca(), alpaca(None), alpaca(7), [1], alpaca("x", history=[["a"]]), alpaca("end")]
    path = lines(tmp_path / "d", *rows)
    found = list(conversations(path))
    assert len(found) == judge(path).usable
    for conversation in found:
        roles = [turn.role for turn in conversation.turns if turn.role != "system"]
        assert roles == ["user", "assistant"] * (len(roles) // 2)
        assert isinstance(conversation.turns[0], Turn)
