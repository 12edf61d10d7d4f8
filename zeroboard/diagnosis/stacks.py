"""Stacks that `faulthandler` wrote into a log on a signal."""

from __future__ import annotations

import re
from collections.abc import Sequence

_THREAD = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+\b.*\(most recent call first\):$")
_FRAME = re.compile(r'  File ".*", line \d+ in \S')


def innermost(lines: Sequence[str]) -> tuple[int, str] | None:
    """Where the main thread stands: the place of its innermost frame among the lines, and the frame; None: no stack.

    The newest thread is written first, so the main one is the last.
    """
    found: tuple[int, str] | None = None
    for at, text in enumerate(lines[:-1]):
        if _THREAD.match(text.rstrip()) and _FRAME.match(lines[at + 1]):
            found = (at + 1, lines[at + 1].strip())
    return found
