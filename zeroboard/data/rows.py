"""One row, judged: which format it is of, what conversation it makes, what was found and mended on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from zeroboard.data.turns import Builder, Finding, Turn

Format = Literal["alpaca", "sharegpt", "messages", "prompt-completion", "text", "preference", "unknown"]

TRAINABLE: frozenset[Format] = frozenset({"alpaca", "sharegpt", "messages", "prompt-completion"})


@dataclass(frozen=True, slots=True)
class Conversation:
    """A row that can be trained on.

    At most one system turn, in front; then user and assistant in turns, the user first and the assistant last.
    """

    row: int
    """Record number in the file, from 1."""
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What became of one record."""

    row: int
    conversation: Conversation | None
    """None: refused; `findings` says why."""
    findings: tuple[Finding, ...] = ()

    @property
    def changed(self) -> bool:
        """It was mended, and is usable."""
        return self.conversation is not None and any(f.changed for f in self.findings)


def recognise(value: object) -> Format:
    """The format of a record by its keys."""
    if not isinstance(value, Mapping):
        return "unknown"
    if "chosen" in value or "rejected" in value:
        return "preference"
    if isinstance(value.get("messages"), list):
        return "messages"
    if isinstance(value.get("conversations"), list):
        return "messages" if _has_role(value["conversations"]) else "sharegpt"
    if "instruction" in value and ("output" in value or "input" in value):
        return "alpaca"
    if "prompt" in value and "completion" in value:
        return "prompt-completion"
    if set(value) & {"text"} and not set(value) & {"label", "labels"}:
        return "text"
    return "unknown"


def _has_role(turns: list[Any]) -> bool:
    return any(isinstance(turn, Mapping) and "role" in turn for turn in turns)


def judge_row(row: int, value: object, kind: Format) -> Judged:
    """Make a record of a file of this (trainable) format into a conversation."""
    if not isinstance(value, Mapping):
        finding = Finding(code="unknown-format", refused=True, says="data.unknown-format.row")
        return Judged(row=row, conversation=None, findings=(finding,))
    builder = Builder()
    if kind == "alpaca":
        _alpaca(value, builder)
    elif kind == "prompt-completion":
        _pair(value, builder)
    else:
        _chat(value, builder)
    turns = builder.finish()
    return Judged(row=row, conversation=Conversation(row, turns) if turns else None, findings=builder.findings)


def _alpaca(value: Mapping[str, Any], builder: Builder) -> None:
    """instruction, input → user; output → assistant; system and history (pairs) in front."""
    builder.optional("system", value.get("system"))
    for pair in _pairs(value.get("history"), builder):
        builder.add("user", pair[0])
        builder.add("assistant", pair[1])
    instruction = builder.text("user", value.get("instruction"), empty_is_fine=True)
    extra = builder.text("user", value.get("input"), empty_is_fine=True)
    builder.put("user", "\n".join(part for part in (instruction, extra) if part and part.strip()))
    builder.add("assistant", value.get("output"))


def _pairs(history: object, builder: Builder) -> list[tuple[Any, Any]]:
    if history is None or history == []:
        return []
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
    turns = value.get("messages", value.get("conversations"))
    if not isinstance(turns, list) or not turns:
        builder.refuse("empty-conversation")
        return
    builder.chat(turns)
    if value.get("tools") and value["tools"] != "[]":
        builder.note("ignored-field", detail="tools")
