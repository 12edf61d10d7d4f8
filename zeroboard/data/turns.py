"""Building a conversation turn by turn, mending what can be mended and noting everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from zeroboard.data.tools import Call, read_calls

Role = Literal["system", "user", "assistant", "tool"]

ROLES: dict[str, Role] = {
    **dict.fromkeys(("system", "developer", "系统"), "system"),
    **dict.fromkeys(("user", "human", "prompter", "student", "question", "用户", "问"), "user"),
    **dict.fromkeys(
        (
            "assistant", "gpt", "chatgpt", "bot", "ai", "model", "bard", "bing", "claude", "llm", "answer",
            "助手", "答", "function_call", "tool_call",
        ),
        "assistant",
    ),
    **dict.fromkeys(
        ("tool", "function", "observation", "ipython", "tool_response", "function_response", "tool_result", "工具"),
        "tool",
    ),
}  # fmt: skip
"""The names that people give the sides, in small letters."""

CALLERS = frozenset(("function_call", "tool_call"))
"""Names of a side whose text is a call."""
_LOST = ("reasoning_content", "reasoning", "thinking")
"""Fields of a turn whose content training would lose."""
_WEIGHTS = ("loss_weight", "weight", "train")
"""Fields that say whether a turn is learned."""
_TAGS = ("think", "thinking")
_REASONING = frozenset(("reasoning", "thinking"))


class Turn(NamedTuple):
    """One turn of a conversation. A named tuple: made, compared and hashed in a fraction of a dataclass's time."""

    role: Role
    content: str
    calls: tuple[Call, ...] = ()
    """Of tools, by the assistant; they come behind the content."""
    learned: bool = True
    """False: the assistant's words stand there for context only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about a row."""

    code: str
    refused: bool = False
    """The row cannot be used."""
    changed: bool = False
    """The row was mended."""
    detail: str | None = None
    """What fills the sentence: a role, the name of a field."""
    says: str | None = None
    """Key of the sentence where it is not `data.<code>`."""


class Builder:
    """Collects the turns of one row and what is found about them."""

    __slots__ = ("_findings", "_system", "_turns")

    def __init__(self) -> None:
        self._system: list[str] = []
        self._turns: list[Turn] = []
        self._findings: dict[tuple[str, str | None], Finding] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found; of a refused row only why it is, for what was mended on the way is no matter then."""
        if not self._findings:
            return ()
        found = tuple(self._findings.values())
        return tuple(f for f in found if f.refused) or found

    @property
    def refused(self) -> bool:
        """The row cannot be used."""
        return bool(self._findings) and any(f.refused for f in self._findings.values())

    def refuse(self, code: str, detail: str | None = None, says: str | None = None) -> None:
        """The row cannot be used."""
        self._findings[code, detail] = Finding(code=code, refused=True, detail=detail, says=says)

    def note(self, code: str, detail: str | None = None, *, changed: bool = False) -> None:
        """The row goes on, mended or not, and it is told."""
        self._findings.setdefault((code, detail), Finding(code=code, changed=changed, detail=detail))

    def chat(self, turns: list[Any]) -> None:
        """Turns as `{role, content}` or `{from, value}`."""
        for turn in turns:
            if not isinstance(turn, Mapping):
                self.refuse("non-text-content", detail=type(turn).__name__)
                continue
            name = turn.get("role") or turn.get("from")
            name = name.strip().lower() if isinstance(name, str) else name
            role = ROLES.get(name) if isinstance(name, str) else None
            if role is None:
                self.refuse("unknown-role", detail=str(name)[:40])
            else:
                self._turn(role, turn, name in CALLERS)

    def _turn(self, role: Role, turn: Mapping[str, Any], caller: bool) -> None:
        content = turn.get("content", turn.get("value"))
        if role != "assistant":
            self.add(role, content)
            return
        learned = self._learned(turn)
        for name in _LOST:
            if turn.get(name):
                self.note("ignored-field", detail=name)
        given = content if caller else turn.get("tool_calls") or turn.get("function_call") or self._call_parts(content)
        calls = read_calls(given) if given else ()
        if calls is None:
            self.refuse("tool-call-malformed", detail=str(turn.get("role", turn.get("from")))[:40])
            calls = ()  # its turn keeps its place, so that what comes behind it is judged rightly
            caller = caller or content is None
        text = "" if caller else self.text(role, content, empty_is_fine=bool(calls))
        if text is not None:
            self.put(role, text, calls, learned=learned, natural=caller)

    def _call_parts(self, content: object) -> list[Any]:
        if not isinstance(content, list):
            return []
        return [
            part.get("value", part.get("tool_call"))
            for part in content
            if isinstance(part, Mapping) and part.get("type") == "tool_call"
        ]

    def _learned(self, turn: Mapping[str, Any]) -> bool:
        learned = True
        for name in _WEIGHTS:
            weight = turn.get(name)
            if weight is None or weight == 1:
                continue
            if weight == 0:
                learned = False
            else:
                self.note("ignored-field", detail=f"{name} {str(weight)[:20]}")
        return learned

    def optional(self, role: Role, value: object) -> None:
        """A turn that may be absent or empty."""
        if value is None or value == "":
            return
        content = self.text(role, value, empty_is_fine=True)
        if content and content.strip():
            self.put(role, content)

    def add(self, role: Role, value: object) -> None:
        """A turn that has to be there."""
        content = self.text(role, value, empty_is_fine=role == "tool")
        if content is not None:
            self.put(role, content)

    def put(
        self, role: Role, content: str, calls: tuple[Call, ...] = (), *, learned: bool = True, natural: bool = False
    ) -> None:
        """Append a turn; the same side speaking twice is one turn, a late system turn moves to the front.

        `natural`: that the side goes on speaking is how its format writes it, and no fault.
        """
        last = self._turns[-1] if self._turns else None
        if role == "system":
            if last is not None:
                self.note("role-order", changed=True)
            self._system.append(content)
        elif last is None and role == "assistant":
            self.note("starts-with-assistant", changed=True)
        elif role == "tool" and (last is None or last.role == "user"):
            self.refuse("role-order", detail="tool", says="data.role-order.tool")
        elif last is not None and last.role == role != "tool":
            if not natural:
                self.note("role-order", changed=True)
            content = "\n".join(part for part in (last.content, content) if part)
            self._turns[-1] = last._replace(content=content, calls=last.calls + calls, learned=last.learned and learned)
        else:
            self._turns.append(Turn(role, content, calls, learned))

    def text(self, role: Role, value: object, *, empty_is_fine: bool = False) -> str | None:
        """The text of a field; None where there is none, which has then been refused."""
        answer = role == "assistant"
        if type(value) is not str:
            value = self._as_text(answer, value, empty_is_fine)
            if value is None:
                return None
        if answer and not empty_is_fine and not value.strip():
            self.refuse("empty-output")
            return None
        if not value.isascii():
            if not _encodable(value):
                self.refuse("broken-character", detail="\\ud800–\\udfff")
                return None
            if "\ufffd" in value:
                self.note("broken-character", detail="U+FFFD")
        if answer and "<think" in value and any(value.count(f"<{t}>") > value.count(f"</{t}>") for t in _TAGS):
            self.note("thinking-tag")
        return value

    def _as_text(self, answer: bool, value: object, empty_is_fine: bool) -> str | None:
        """What is no text read as one; None where that cannot be, which has then been refused."""
        if value is None:
            if empty_is_fine:
                return ""
            self.refuse("missing-output" if answer else "non-text-content", detail=None if answer else "null")
            return None
        if isinstance(value, list) and value and all(isinstance(part, Mapping) for part in value):
            return self._parts(answer, value)
        if isinstance(value, (bool, int, float)):
            self.note("mixed-types", changed=True)
            return str(value).lower() if isinstance(value, bool) else str(value)
        self.refuse("non-text-output" if answer else "non-text-content", detail=type(value).__name__)
        return None

    def _parts(self, answer: bool, parts: list[Mapping[str, Any]]) -> str | None:
        texts: list[str] = []
        for part in parts:
            kind = part.get("type", "text")
            if answer and kind == "tool_call":
                continue  # has been read as a call
            if answer and kind in _REASONING:
                self.note("ignored-field", detail=str(kind))
                continue
            text = part.get("text", part.get("value"))
            if kind != "text" or not isinstance(text, str):
                self.refuse("non-text-content", detail=str(kind)[:40])
                return None
            texts.append(text)
        return "".join(texts)

    def finish(self) -> tuple[Turn, ...]:
        """The conversation, mended at its end; empty where the row is refused."""
        turns = self._turns
        if turns and turns[-1].role != "assistant":
            del turns[max((at + 1 for at, turn in enumerate(turns) if turn.role == "assistant"), default=0) :]
            if turns:
                self.note("ends-with-user", changed=True)
            elif not self.refused:  # nothing is left: there is no answer to learn
                self.refuse("ends-with-user", says="data.ends-with-user.alone")
        if not self.refused:
            if not any(t.role == "user" and t.content.strip() for t in turns):
                self.refuse("empty-conversation")
            elif not any(t.role == "assistant" and t.learned for t in turns):
                self.refuse("no-trainable-tokens", says="data.no-trainable-tokens.weights")
        if self.refused:
            return ()
        return (Turn("system", "\n".join(self._system)), *turns) if self._system else tuple(turns)


def _encodable(text: str) -> bool:
    """Half of a character pair (`\\ud83d` alone) cannot be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
