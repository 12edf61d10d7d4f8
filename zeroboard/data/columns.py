"""The names under which people keep questions, answers and conversations, in English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
