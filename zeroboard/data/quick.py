"""Rows with nothing to mend, made into turns straight away: most rows of most files, in a tenth of the time.

What comes out is what `Builder` would make of them (a test holds the two against each other); wherever there is
anything to say about a row, `Builder` says it.
"""

from __future__ import annotations

from typing import Any

from zeroboard.contract.reports import DataFormat
from zeroboard.data.turns import CALLERS, ROLES, Role, Turn

_NAMES: dict[str, Role] = {name: role for name, role in ROLES.items() if role != "tool" and name not in CALLERS}


def quick_turns(value: dict[str, Any], kind: DataFormat) -> tuple[Turn, ...] | None:
    """The turns of a record that is in order; None where it has to be looked at more closely."""
    if value.get("system") or value.get("tools"):
        return None
    if kind == "alpaca":
        return _alpaca(value)
    if kind == "messages" or kind == "sharegpt":
        return _chat(value.get("messages", value.get("conversations")))
    if kind == "prompt-completion":
        return _pair(value.get("prompt"), value.get("completion"))
    return None


def _alpaca(value: dict[str, Any]) -> tuple[Turn, ...] | None:
    question, more = value.get("instruction"), value.get("input")
    if value.get("history") or type(question) is not str:
        return None
    if more:
        if type(more) is not str:
            return None
        if not more.isspace():
            question = question + "\n" + more if question and not question.isspace() else more
    elif more is not None and more != "":
        return None
    return _pair(question, value.get("output"))


def _pair(question: object, answer: object) -> tuple[Turn, ...] | None:
    if type(question) is not str or type(answer) is not str:
        return None
    if not (question.isascii() or _whole(question)) or not (answer.isascii() or _whole(answer)):
        return None
    if not question or not answer or "<think" in answer or answer.isspace() or question.isspace():
        return None
    return (Turn("user", question), Turn("assistant", answer))


def _chat(turns: object) -> tuple[Turn, ...] | None:
    if type(turns) is not list or not turns:
        return None
    found: list[Turn] = []
    wanted = "user"
    for turn in turns:
        if type(turn) is not dict or len(turn) != 2:  # any other field has a meaning that has to be looked at
            return None
        name, content = turn.get("role") or turn.get("from"), turn.get("content", turn.get("value"))
        role = _NAMES.get(name) if type(name) is str else None
        if role is None or type(content) is not str or not content or content.isspace():
            return None
        if not (content.isascii() or _whole(content)):
            return None
        if role == "system" and not found:
            found.append(Turn(role, content))
            continue
        if role != wanted or (role == "assistant" and "<think" in content):
            return None
        wanted = "assistant" if role == "user" else "user"
        found.append(Turn(role, content))
    return tuple(found) if wanted == "user" and found[-1].role == "assistant" else None


def _whole(text: str) -> bool:
    """No character of it is broken."""
    if "\ufffd" in text:
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
