"""Tracebacks of Python in a stream of lines: which exception, in which frames, and what was raised while handling what.

Covered: plain tracebacks of one process, chained ones, the original of a loader's worker, boxes drawn by rich, an
exception whose traceback is cut off, and what C++ says when it terminates. Not covered: two unmarked tracebacks that
are woven into each other line by line; the first exception of such a weave is found, its frames may be the other's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from zeroboard.diagnosis.reading import Line

MESSAGE_LINES = 30
FRAMES = 60
FOREIGN = 40
"""So many lines of others may stand within a traceback before it counts as cut off."""

_HEAD = re.compile(r"(Original )?Traceback \(most recent call last\):|╭─+ Traceback \(most recent call last\)")
_CHAIN = re.compile(
    r"(During handling of the above exception, another exception occurred"
    r"|The above exception was the direct cause of the following exception)"
)
_ASIDE = re.compile(r"Exception ignored in|--- Logging error ---|Error in (?:sys\.excepthook|atexit)")
"""The traceback that follows ended nothing."""
_THREAD = re.compile(r"Exception in thread ")
_FRAME = re.compile(r'\s*(?:│ )?\s*File "(?P<file>[^"]+)", line \d+, in (?P<name>\S+)')
_EXCEPTION = re.compile(r"(?P<type>(?:[A-Za-z_]\w*\.)*(?P<last>_*[A-Z]\w*))(?::(?: (?P<message>.*)|\s*)$|$)")
_LOOSE = re.compile(r"(?:[A-Za-z_]\w*\.)*_*[A-Z]\w*(?:Error|Exception|Interrupt): \S|KeyboardInterrupt$")
"""An exception without its traceback, as the end of a cut log begins."""
_TERMINATED = re.compile(r"terminate called after throwing an instance of '([^']+)'")
_WHAT = re.compile(r"\s+what\(\):\s*(.*)")
_LOGGED = re.compile(
    r"\{['\"]"
    r"|\[?(?:[IWEF]\d{4} \d\d:|\d{4}-\d\d-\d\d[ T]\d\d:|\d\d/\d\d/\d{4} \d\d:|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b)"
)
"""How a logger, or a step, begins a line."""


@dataclass(slots=True, kw_only=True)
class Raised:
    """An exception in a log."""

    type: str
    """As it stands there, with its module."""
    line: Line
    """Where type and message stand."""
    order: int
    """Of that line among all lines of the file."""
    chain: int
    """Exceptions that were raised while others were handled share it."""
    frames: tuple[str, ...] = ()
    """`file:function`, the outermost first."""
    message: list[str] = field(default_factory=list)
    aside: bool = False
    """It ended nothing: a destructor, a logger, a thread."""
    original: bool = False
    """Raised in a loader's worker; the exception before it only carries it."""

    @property
    def text(self) -> str:
        """Type and message, as a traceback ends."""
        message = "\n".join(self.message)
        return f"{self.type}: {message}" if message else self.type


class Stream:
    """The lines of one rank in one file."""

    def __init__(self) -> None:
        self._mode = "idle"
        self._frames: list[str] = []
        self._foreign = 0
        self._chain = 0
        self._chained = False
        self._aside = False
        self._original = False
        self._terminated = ""
        self._last: Raised | None = None

    def feed(self, line: Line, order: int) -> tuple[Raised | None, bool]:
        """Take a line; returns the exception that it names, if any, and whether the line belongs to a traceback (or to
        the message of an exception) and is nothing by itself."""
        text = line.text
        head = _HEAD.match(text) if "Traceback" in text else None
        if head is not None:
            self._begin(original=head.group(1) is not None)
            return None, True
        if self._mode == "body":
            return self._body(line, order)
        if self._mode == "message" and self._continues(text):
            assert self._last is not None
            self._last.message.append(text.rstrip())
            return None, True
        if self._mode == "message":
            self._mode = "idle"
        if not text or text.isspace():
            return None, True
        return self._idle(line, order)

    def _begin(self, *, original: bool) -> None:
        chained = self._chained or original
        if not chained:
            self._chain += 1
            if self._mode != "aside":
                self._aside = False
        self._mode, self._frames, self._foreign = "body", [], 0
        self._chained, self._original = False, original

    def _body(self, line: Line, order: int) -> tuple[Raised | None, bool]:
        text = line.text
        if not text or text[0] in " \t│╰╭|+":
            if frame := _FRAME.match(text):
                self._frames = [*self._frames, f"{frame['file']}:{frame['name']}"][-FRAMES:]
            return None, True
        found = _EXCEPTION.match(text)
        if found and not found["last"].isupper():
            return self._raise(line, order, found["type"], found["message"] or ""), True
        self._foreign += 1
        if self._foreign > FOREIGN:
            self._mode = "idle"
        return None, False

    def _continues(self, text: str) -> bool:
        last = self._last
        if last is None or len(last.message) >= MESSAGE_LINES or not text or text.isspace():
            return False
        if text.startswith(
            ("=====", "-----")
        ):  # torchrun's report is the message of its exception; it is read for itself
            return False
        return not any(end.match(text) for end in (_LOGGED, _CHAIN, _ASIDE, _THREAD, _TERMINATED))

    def _idle(self, line: Line, order: int) -> tuple[Raised | None, bool]:
        text = line.text
        if text.startswith(("During", "The above")) and _CHAIN.match(text):
            self._chained = True
            return None, True
        if text.startswith(("Exception i", "---", "Error in")) and (_ASIDE.match(text) or _THREAD.match(text)):
            self._mode, self._aside = "aside", True
            return None, True
        if text.startswith("terminate called") and (found := _TERMINATED.match(text)):
            self._terminated = found.group(1)
            return None, True
        if self._terminated and (found := _WHAT.match(text)):
            kind, self._terminated = self._terminated, ""
            self._chain += 1
            self._frames, self._aside, self._original = [], False, False
            return self._raise(line, order, kind, found.group(1)), True
        if text[0].isalpha() and _LOOSE.match(text):
            found = _EXCEPTION.match(text)
            if found:
                self._chain += 1
                self._frames, self._aside, self._original = [], False, False
                return self._raise(line, order, found["type"], found["message"] or ""), True
        return None, False

    def _raise(self, line: Line, order: int, kind: str, message: str) -> Raised:
        self._last = Raised(
            type=kind,
            line=line,
            order=order,
            chain=self._chain,
            frames=tuple(self._frames),
            message=[message] if message else [],
            aside=self._aside,
            original=self._original,
        )
        self._mode = "message"
        return self._last
