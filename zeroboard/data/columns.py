"""The names under which people keep questions, answers and conversations, in English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

ALIASES: dict[str, tuple[str, ...]] = {
    "instruction": (
        "instruction", "instructions", "question", "query", "prompt", "ask", "q", "human", "user", "problem",
        "user_input", "input_text", "问题", "提问", "指令", "题目", "用户", "用户输入", "提示", "提示词", "问",
    ),
    "input": ("input", "context", "background", "输入", "上下文", "背景", "补充", "附加输入"),
    "output": (
        "output", "answer", "answers", "response", "reply", "completion", "a", "assistant", "gpt", "solution",
        "target", "output_text", "回答", "答案", "输出", "回复", "响应", "答复", "助手", "解答", "答",
    ),
    "system": ("system", "system_prompt", "system_message", "系统", "系统提示", "系统提示词"),
    "history": ("history", "历史", "历史对话", "历史记录"),
    "messages": ("messages", "dialog", "dialogue", "chat", "turns", "消息", "消息列表"),
    "conversations": ("conversations", "conversation", "对话", "会话", "多轮对话"),
    "tools": ("tools", "functions", "工具"),
    "text": ("text", "content", "body", "document", "文本", "内容", "正文"),
    "chosen": ("chosen", "preferred", "better", "较好回答", "优选"),
    "rejected": ("rejected", "dispreferred", "worse", "较差回答", "劣选"),
}  # fmt: skip
"""What a field is called here → what others call it, in small letters with `_` between words."""

_KNOWN = {alias: name for name, aliases in ALIASES.items() for alias in aliases}
_BETWEEN = re.compile(r"[\s\-]+")


def plain(name: str) -> str:
    """A column's name without what does not matter: case, white space at its ends, marks between words."""
    return _BETWEEN.sub("_", name.strip().lower())


def mapping(names: Iterable[str]) -> dict[str, str]:
    """For columns that go by another name here: theirs → ours. The first of two wins, and an exact name before both."""
    given = [name for name in names if isinstance(name, str)]
    taken = {name for name in given if name in ALIASES}
    found: dict[str, str] = {}
    for name in given:
        ours = _KNOWN.get(plain(name))
        if ours is not None and ours not in taken:
            found[name] = ours
            taken.add(ours)
    return found


_RIVALS = (
    ("text",),
    ("messages", "conversations"),
    ("instruction", "input", "output", "history"),
    ("chosen", "rejected"),
)
"""Names of which a record has those of one line: each line is a format of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """By which names the columns of a file are read."""

    chosen: Mapping[str, str] = field(default_factory=dict)
    """Ours → theirs, as a person said it."""
    known: Mapping[str, str] = field(default_factory=dict)
    """Theirs → ours, as they were recognised."""
    closed: frozenset[str] = frozenset()
    """Names of ours that stand for nothing: what was chosen decides the format."""

    @property
    def pairs(self) -> dict[str, str]:
        """Theirs → ours, for people."""
        return {**{theirs: ours for ours, theirs in self.chosen.items()}, **self.known}

    def read(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """A record under our names."""
        known = self.known
        if not self.chosen:
            return {known.get(key, key): part for key, part in value.items()}
        taken = set(self.chosen.values())
        rest = {known.get(key, key): part for key, part in value.items() if key not in taken}
        found = {key: part for key, part in rest.items() if key not in self.closed}
        return {**found, **{ours: value[theirs] for ours, theirs in self.chosen.items() if theirs in value}}


def choose(names: Iterable[str], chosen: Mapping[str, str]) -> Names:
    """The columns of a record as a person chose them (ours → theirs), and the others by the names that are known.

    What is chosen for one format closes the names of the others, so that a column that happens to be called `text`
    decides nothing.
    """
    lines = [line for line in _RIVALS if chosen.keys() & set(line)]
    rivals = {name for line in _RIVALS if lines and line not in lines for name in line}
    closed = frozenset(rivals | chosen.keys())
    rest = [name for name in names if isinstance(name, str) and name not in chosen.values()]
    known = {theirs: ours for theirs, ours in mapping(rest).items() if ours not in closed}
    return Names(chosen=dict(chosen), known=known, closed=closed)
