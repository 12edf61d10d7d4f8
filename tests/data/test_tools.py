"""Calls of tools in each of the three ways to write them, and what is malformed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data.rows_of import codes, lines
from zeroboard.data.conversations import Conversation, Turn, conversations
from zeroboard.data.folding import plain, without_system
from zeroboard.data.judge import judge
from zeroboard.data.tools import Call, read_calls, read_tools

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CALL = Call("look", {"at": "it"})
WRITTEN = {"name": "look", "arguments": {"at": "it"}}


def openai(arguments: Any) -> dict[str, Any]:
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "function": {**WRITTEN, "arguments": arguments}}],
    }
    turns = [{"role": "user", "content": "q"}, call, {"role": "tool", "tool_call_id": "1", "content": "5"}]
    return {"messages": [*turns, {"role": "assistant", "content": "Five."}], "tools": [TOOL]}


def sharegpt() -> dict[str, Any]:
    said = [("human", "q"), ("function_call", json.dumps(WRITTEN)), ("observation", "5"), ("gpt", "Five.")]
    return {"conversations": [{"from": name, "value": text} for name, text in said], "tools": json.dumps([TOOL])}


def parts() -> dict[str, Any]:
    call = [{"type": "tool_call", "value": json.dumps(WRITTEN)}]
    turns = [("user", "q"), ("assistant", call), ("tool", [{"type": "text", "value": "5"}]), ("assistant", "Five.")]
    return {"messages": [{"role": role, "content": content} for role, content in turns], "tools": json.dumps([TOOL])}


@pytest.mark.parametrize("row", [openai({"at": "it"}), openai('{"at": "it"}'), sharegpt(), parts()])
def test_every_way_to_write_a_call_is_the_same_conversation(tmp_path: Path, row: dict[str, Any]) -> None:
    path = lines(tmp_path / "d", row)
    report = judge(path)
    assert (report.usable, report.changed, report.problems) == (1, 0, ())
    (made,) = conversations(path)
    wanted = (Turn("user", "q"), Turn("assistant", "", (CALL,)), Turn("tool", "5"), Turn("assistant", "Five."))
    assert (made.turns, made.tools) == (wanted, (TOOL,))


def test_for_a_template_without_tools_calls_and_results_are_texts(tmp_path: Path) -> None:
    (made,) = conversations(lines(tmp_path / "d", sharegpt()))
    system, *told = plain(made)
    assert (
        system.role == "system" and json.dumps(TOOL) in system.content and '{"name": <function-name>' in system.content
    )
    assert told == [
        Turn("user", "q"),
        Turn("assistant", f"<tool_call>\n{json.dumps(WRITTEN)}\n</tool_call>"),
        Turn("user", "<tool_response>\n5\n</tool_response>"),
        Turn("assistant", "Five."),
    ]
    without = Conversation(1, (Turn("user", "q"), Turn("assistant", "a", learned=False)))
    assert plain(without) == without.turns
    results = (Turn("user", "q"), Turn("assistant", "I look.", (CALL, CALL)), Turn("tool", "1"), Turn("tool", "2"))
    folded = plain(Conversation(1, (Turn("system", "S"), *results, Turn("assistant", "a")), ({"name": "look"},)))
    assert [turn.role for turn in folded] == ["system", "user", "assistant", "user", "assistant"]
    assert folded[0].content.startswith("S\n\n# Tools") and folded[2].content.count("<tool_call>") == 2
    assert folded[3].content.count("<tool_response>") == 2


def test_a_system_turn_without_a_place_goes_before_the_question() -> None:
    turns = (Turn("system", "Be brief."), Turn("user", "q"), Turn("assistant", "a"))
    assert without_system(turns) == (Turn("user", "Be brief.\n\nq"), Turn("assistant", "a"))
    assert without_system(turns[1:]) == turns[1:]


def test_malformed_calls_and_tools_are_refused_and_the_rest_of_the_row_is_judged_rightly(tmp_path: Path) -> None:
    rows = [openai("{broken"), openai("5"), openai({"at": "it"}), openai(""), {**openai({}), "tools": "[not json"}]
    report = judge(lines(tmp_path / "d", *rows))
    assert report.usable == 2 and codes(report) == {"tool-call-malformed": (1, 2, 5)}
    assert report.problems[0].params["details"] == "assistant, tools"


def test_a_result_that_nobody_asked_for_is_refused_and_a_row_ends_with_the_assistant(tmp_path: Path) -> None:
    lonely = {
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "tool", "content": "5"},
            {"role": "assistant", "content": "a"},
        ]
    }
    cut = openai({})
    del cut["messages"][3]
    report = judge(lines(tmp_path / "d", lonely, cut))
    assert codes(report) == {"role-order": (1,), "ends-with-user": (2,)}
    assert report.usable == report.changed == 1


def test_readers_of_calls_and_tools() -> None:
    assert read_calls({"name": "f", "parameters": None}) == (Call("f", {}),)
    assert read_calls('[{"name": "f", "arguments": {}}, {"function": {"name": "g"}}]') == (Call("f", {}), Call("g", {}))
    for bad in ("", "x", [], [5], {"arguments": {}}, {"name": 5}, {"name": "f", "arguments": [1]}, {"function": "f"}):
        assert read_calls(bad) is None, bad
    assert read_tools(" ") == read_tools(None) == () and read_tools([]) == ()
    assert read_tools(['{"name": "f"}']) == ({"name": "f"},) and read_tools("f") is None
