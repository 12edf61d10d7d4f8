"""One row, judged: which format it is of, what conversation it makes, what was found and mended on the way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from zeroboard.contract.reports import TRAINABLE_FORMATS, DataFormat
from zeroboard.data.quick import quick_turns
from zeroboard.data.tools import read_tools
from zeroboard.data.turns import Builder, Finding, Turn

__all__ = ["TRAINABLE_FORMATS", "Conversation", "DataFormat", "Judged", "judge_row", "recognise"]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A row that can be trained on: turns, or a plain text that is learned whole.

    At most one system turn, in front; then user and assistant in turns, the user first and the assistant last; results
    of tools (one or more) between two turns of the assistant.
    """

    row: int
    """Record number in the file, from 1."""
    turns: tuple[Turn, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    """What the assistant may call, as JSON objects."""
    text: str | None = None
    """The plain text; there are no turns then."""


class Judged(NamedTuple):
    """What became of one record. A named tuple, as `Record` is."""

    row: int
    usable: bool
    conversation: Conversation | None = None
    """None: refused (`findings` says why), or of a format that is not trained on."""
    findings: tuple[Finding, ...] = ()
    value: Any = None
    """The record, to quote from it."""

    @property
    def changed(self) -> bool:
        """It was mended, and is usable."""
        return self.usable and any(f.changed for f in self.findings)


def recognise(value: object) -> DataFormat:
    """The format of a record by its keys."""
    if not isinstance(value, Mapping):
        return "unknown"
    if "chosen" in value or "rejected" in value:
        return "preference"
    if _turns(value.get("messages")) is not None:
        return "messages"
    turns = _turns(value.get("conversations"))
    if turns is not None:
        return "messages" if _has_role(turns) else "sharegpt"
    if "instruction" in value and ("output" in value or "input" in value):
        return "alpaca"
    if "prompt" in value and "completion" in value:
        return "prompt-completion"
    if "text" in value and not ("label" in value or "labels" in value):
        return "text"
    return "unknown"


def _turns(value: object) -> list[Any] | None:
    """The list of turns of a field, which a table holds as JSON text; None where it is none."""
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, list) else None


def _has_role(turns: list[Any]) -> bool:
    return any(isinstance(turn, Mapping) and "role" in turn for turn in turns)


def judge_row(row: int, value: object, kind: DataFormat) -> Judged:
    """Make a record of a file of this format into a conversation; preference pairs are looked at only."""
    if not isinstance(value, Mapping):
        finding = Finding(code="unknown-format", refused=True, says="data.unknown-format.row")
        return Judged(row, False, None, (finding,), value)
    turns = quick_turns(value, kind) if type(value) is dict else None
    if turns is not None:
        return Judged(row, True, Conversation(row, turns), (), value)
    return closely(row, value, kind)


def closely(row: int, value: Mapping[str, Any], kind: DataFormat) -> Judged:
    """Judge a record turn by turn, mending and noting what there is to mend and to note."""
    builder = Builder()
    if kind == "preference":
        _preference(value, builder)
        return Judged(row, not builder.refused, None, builder.findings, value)
    if kind == "text":
        text = builder.text("assistant", value.get("text"))
        made = Conversation(row, (), (), text) if text is not None and not builder.refused else None
        return Judged(row, made is not None, made, builder.findings, value)
    tools: tuple[Mapping[str, Any], ...] = ()
    if kind == "alpaca":
        _alpaca(value, builder)
    elif kind == "prompt-completion":
        _pair(value, builder)
    else:
        _chat(value, builder)
    if value.get("tools"):
        found = read_tools(value["tools"])
        if found is None:
            builder.refuse("tool-call-malformed", detail="tools")
        tools = found or ()
    turns = builder.finish()
    return Judged(row, bool(turns), Conversation(row, turns, tools) if turns else None, builder.findings, value)


def _alpaca(value: Mapping[str, Any], builder: Builder) -> None:
    """instruction, input → user; output → assistant; system and history (pairs) in front."""
    builder.optional("system", value.get("system"))
    for pair in _pairs(value.get("history"), builder):
        builder.add("user", pair[0])
        builder.add("assistant", pair[1])
    question = builder.text("user", value.get("instruction"), empty_is_fine=True)
    extra = value.get("input")
    if extra is not None and extra != "":
        more = builder.text("user", extra, empty_is_fine=True)
        question = "\n".join(part for part in (question, more) if part and part.strip())
    builder.put("user", question or "")
    builder.add("assistant", value.get("output"))


def _pairs(history: object, builder: Builder) -> list[tuple[Any, Any]]:
    if not history:
        return []
    if isinstance(history, str):
        history = _turns(history)
    if not isinstance(history, list) or any(not isinstance(p, list) or len(p) != 2 for p in history):
        builder.refuse("non-text-content", detail="history")
        return []
    return [(pair[0], pair[1]) for pair in history]


def _pair(value: Mapping[str, Any], builder: Builder) -> None:
    """prompt → user, completion → assistant; both may be lists of turns."""
    builder.optional("system", value.get("system"))
    for role, part in (("user", value.get("prompt")), ("assistant", value.get("completion"))):
        if isinstance(part, list):
            builder.chat(part)
        else:
            builder.add("user" if role == "user" else "assistant", part)


def _chat(value: Mapping[str, Any], builder: Builder) -> None:
    builder.optional("system", value.get("system"))
    turns = _turns(value.get("messages", value.get("conversations")))
    if not turns:
        builder.refuse("empty-conversation")
        return
    builder.chat(turns)


def _preference(value: Mapping[str, Any], builder: Builder) -> None:
    """Both answers have to be there."""
    for side in ("chosen", "rejected"):
        answer = value.get(side)
        if isinstance(answer, list):
            answer = answer[-1] if answer else None
        if isinstance(answer, Mapping):
            answer = answer.get("content", answer.get("value"))
        builder.text("assistant", answer)
