"""Which rule of the table an exception or a line falls under."""

from __future__ import annotations

import re
from collections.abc import Iterable

from zeroboard.diagnosis.aftermath import AFTERMATH
from zeroboard.diagnosis.reading import holds
from zeroboard.diagnosis.rules import CAUSES, Rule

RULES = (*CAUSES, *AFTERMATH)
"""The whole table, in its order."""

GENERIC = Rule(code="python-exception")
"""Any exception that no rule names."""
ECHO = next(rule for rule in RULES if rule.role == "echo")
DATA = Rule(code="data-refused")
"""An exception in a frame that reads or tokenises rows."""

_DATA_FRAMES = re.compile(
    r":(?:__getitem__|__getitems__|tokeni[sz]e\w*|apply_chat_template|collate\w*)$|torch/utils/data/_utils/(?:fetch|collate)\.py"
    r"|datasets/arrow_dataset\.py|zeroboard/(?:data|engine/tokens)"
)
_NOT_DATA = re.compile(
    r"^(?:\w+\.)*(?:OSError|IOError|PermissionError|FileNotFoundError|TimeoutError|InterruptedError)\b"
)
"""A disk that fails, not a row."""

_RAISED = tuple((rule, tuple(re.compile(p, re.MULTILINE) for p in rule.raised)) for rule in RULES if rule.raised)
_SAID = tuple((word, re.compile(p), rule, at) for rule in RULES for at, (word, p) in enumerate(rule.said))
_WORDS = tuple({word for word, *_ in _SAID})


def of_exception(text: str, frames: Iterable[str] = ()) -> tuple[Rule, int]:
    """The rule for an exception (`Type: message`), and which of its patterns it was: the lower the better evidence."""
    for rule, patterns in _RAISED:
        for at, pattern in enumerate(patterns):
            if pattern.search(text):
                return rule, at + len(rule.said)
    if not _NOT_DATA.match(text) and any(_DATA_FRAMES.search(frame) for frame in frames):
        return DATA, 0
    return GENERIC, 0


def of_line(text: str) -> tuple[Rule, int] | None:
    """The rule for a line outside of tracebacks, and which of its patterns it was; None for most lines."""
    if not holds(text, _WORDS):
        return None
    for word, pattern, rule, at in _SAID:
        if word in text and pattern.search(text):
            return rule, at
    return None
