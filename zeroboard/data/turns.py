"""Building a conversation turn by turn, mending what can be mended and noting everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["system", "user", "assistant"]

ROLES: dict[str, Role] = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human", "prompter", "student", "question"), "user"),
    **dict.fromkeys(
        ("assistant", "gpt", "chatgpt", "bot", "ai", "model", "bard", "bing", "claude", "llm", "answer"), "assistant"
    ),
}
"""The names that people give the three sides, in small letters."""

_LOST = ("reasoning_content", "reasoning", "thinking")
"""Fields of a turn whose content training would lose."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation."""

    role: Role
    content: str


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

    def __init__(self) -> None:
        self._system: list[str] = []
        self._turns: list[Turn] = []
        self._findings: dict[tuple[str, str | None], Finding] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found; of a refused row only why it is, for what was mended on the way is no matter then."""
        found = tuple(self._findings.values())
        return tuple(f for f in found if f.refused) or found

    def refuse(self, code: str, detail: str | None = None, says: str | None = None) -> None:
        """The row cannot be used."""
        self._findings.setdefault((code, detail), Finding(code=code, refused=True, detail=detail, says=says))

    def note(self, code: str, detail: str | None = None, *, changed: bool = False) -> None:
        """The row goes on, mended or not, and it is told."""
        self._findings.setdefault((code, detail), Finding(code=code, changed=changed, detail=detail))

    def chat(self, turns: list[Any]) -> None:
        """Turns as `{role, content}` or `{from, value}`."""
        for turn in turns:
            if not isinstance(turn, Mapping):
                self.refuse("non-text-content", detail=type(turn).__name__)
                continue
            name = turn.get("role", turn.get("from"))
            role = ROLES.get(name.strip().lower()) if isinstance(name, str) else None
            if role is None:
                self.refuse("unknown-role", detail=str(name)[:40])
                continue
            if turn.get("tool_calls"):
                self.refuse("non-text-content", detail="tool_calls")
                continue
            if role == "assistant":
                self._note_lost(turn)
            self.add(role, turn.get("content", turn.get("value")))

    def _note_lost(self, turn: Mapping[str, Any]) -> None:
        for name in _LOST:
            if turn.get(name):
                self.note("ignored-field", detail=name)
        for name in ("loss_weight", "weight"):
            if turn.get(name) == 0:
                self.note("ignored-field", detail=name)

    def optional(self, role: Role, value: object) -> None:
        """A turn that may be absent or empty."""
        content = self.text(role, value, empty_is_fine=True)
        if content and content.strip():
            self.put(role, content)

    def add(self, role: Role, value: object) -> None:
        """A turn that has to be there."""
        content = self.text(role, value)
        if content is not None:
            self.put(role, content)

    def put(self, role: Role, content: str) -> None:
        """Append a text; the same side speaking twice is one turn, a late system turn moves to the front."""
        if role == "system":
            if self._turns:
                self.note("role-order", changed=True)
            self._system.append(content)
            return
        if not self._turns and role == "assistant":
            self.note("starts-with-assistant", changed=True)
            return
        if self._turns and self._turns[-1].role == role:
            self.note("role-order", changed=True)
            self._turns[-1] = Turn(role, self._turns[-1].content + "\n" + content)
            return
        self._turns.append(Turn(role, content))

    def text(self, role: Role, value: object, *, empty_is_fine: bool = False) -> str | None:
        """The text of a field; None where there is none, which has then been refused."""
        answer = role == "assistant"
        if value is None:
            if empty_is_fine:
                return ""
            self.refuse("missing-output" if answer else "non-text-content", detail=None if answer else "null")
            return None
        if isinstance(value, list) and value and all(isinstance(part, Mapping) for part in value):
            parts = [_part(part) for part in value]
            if any(part is None for part in parts):
                self.refuse("non-text-content", detail=_first_type(value))
                return None
            value = "".join(part for part in parts if part is not None)
        if isinstance(value, (bool, int, float)):
            self.note("mixed-types", changed=True)
            value = str(value).lower() if isinstance(value, bool) else str(value)
        if not isinstance(value, str):
            self.refuse("non-text-output" if answer else "non-text-content", detail=type(value).__name__)
            return None
        if answer and not value.strip():
            self.refuse("empty-output")
            return None
        if not _encodable(value):
            self.refuse("broken-character")
            return None
        return value

    def finish(self) -> tuple[Turn, ...]:
        """The conversation, mended at its end; empty where the row is refused."""
        if self._turns and self._turns[-1].role == "user":
            self._turns.pop()
            if self._turns:
                self.note("ends-with-user", changed=True)
            elif not self._refused():  # nothing is left: there is no answer to learn
                self.refuse("ends-with-user", says="data.ends-with-user.alone")
        if not self._refused() and not any(t.role == "user" and t.content.strip() for t in self._turns):
            self.refuse("empty-conversation")
        if self._refused():
            return ()
        system = (Turn("system", "\n".join(self._system)),) if self._system else ()
        return (*system, *self._turns)

    def _refused(self) -> bool:
        return any(f.refused for f in self._findings.values())


def _part(part: Mapping[str, Any]) -> str | None:
    """The text of a content part; None where it is no text."""
    if part.get("type", "text") != "text":
        return None
    text = part.get("text", part.get("value"))
    return text if isinstance(text, str) else None


def _first_type(parts: list[Any]) -> str:
    return next((str(p.get("type"))[:40] for p in parts if _part(p) is None), "")


def _encodable(text: str) -> bool:
    """Half of a character pair (`\\ud83d` alone) cannot be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
