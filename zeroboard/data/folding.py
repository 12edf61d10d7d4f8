"""Conversations for templates that have no place for a part of them: tools and their results, system turns.

A template decides what it can render; these fold away what it cannot, so that nothing is lost: calls and results become
texts of their turns in the form that most open models know (a JSON object between tags), tools and system turns move to
where the model reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zeroboard.data.rows import Conversation
from zeroboard.data.turns import Turn

TOOLS = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n{tools}\n</tools>\n\n"
    "For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML "
    'tags:\n<tool_call>\n{{"name": <function-name>, "arguments": <args-json-object>}}\n</tool_call>'
)
"""What the model reads about its tools; words for the model, in the language of its training."""


def plain(conversation: Conversation) -> tuple[Turn, ...]:
    """The turns as system, user and assistant with nothing but text."""
    turns = conversation.turns
    if conversation.tools:
        turns = _with_system(turns, TOOLS.format(tools="\n".join(map(_json, conversation.tools))))
    elif not any(turn.calls or turn.role == "tool" for turn in turns):
        return turns
    found: list[Turn] = []
    for turn in turns:
        told = _told(turn)
        if found and found[-1].role == told.role:
            found[-1] = found[-1]._replace(content=found[-1].content + "\n" + told.content)
        else:
            found.append(told)
    return tuple(found)


def without_system(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The system turn as the beginning of the first question, for a template that refuses system turns."""
    if not turns or turns[0].role != "system":
        return tuple(turns)
    system, first, *rest = turns
    return (first._replace(content=f"{system.content}\n\n{first.content}"), *rest)


def _with_system(turns: Sequence[Turn], text: str) -> tuple[Turn, ...]:
    if turns and turns[0].role == "system":
        return (turns[0]._replace(content=f"{turns[0].content}\n\n{text}"), *turns[1:])
    return (Turn("system", text), *turns)


def _told(turn: Turn) -> Turn:
    """A turn with its calls, or the result of a tool, as text."""
    if turn.role == "tool":
        return Turn("user", f"<tool_response>\n{turn.content}\n</tool_response>")
    if not turn.calls:
        return turn
    calls: Iterable[str] = (
        f"<tool_call>\n{_json({'name': call.name, 'arguments': call.arguments})}\n</tool_call>" for call in turn.calls
    )
    return turn._replace(content="\n".join(part for part in (turn.content, *calls) if part), calls=())


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
