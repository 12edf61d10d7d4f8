"""How a short verb speaks: requests come as lines of standard input, messages leave as lines of standard output.

Libraries print what they like, so the real standard output is kept aside first and whatever else is printed goes to
standard error, which is the verb's log.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import BinaryIO, TextIO

from pydantic import BaseModel

from zeroboard.contract.problems import Problem, Scalar
from zeroboard.contract.requests import Answer, Progress
from zeroboard.errors import BrokenFile, NotFound, Refused


def leave_when_asked() -> None:
    """From here on SIGTERM leaves through every `finally`, so that what is half written goes too."""

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)


@dataclass(frozen=True, slots=True)
class Channel:
    """The two ends of a verb."""

    source: TextIO
    sink: BinaryIO

    @classmethod
    def open(cls) -> Channel:
        """Keep the real standard output for messages; from here on `print` and C libraries write to standard error."""
        sys.stdout.flush()
        sink = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        return cls(source=sys.stdin, sink=sink)

    def receive(self) -> str | None:
        """The next line of standard input; None when the other side has closed it."""
        return self.source.readline() or None

    def send(self, message: BaseModel) -> None:
        """One message as one line. Raises `BrokenPipeError` when nobody reads any more."""
        data = message.model_dump_json().encode("utf-8") + b"\n"
        while data:  # a pipe may take a long line in parts
            data = data[self.sink.write(data) :]

    def progress(self, phase: str, done: float | None = None, says: str | None = None, **params: Scalar) -> None:
        """How far a phase is, `done` from 0 to 1."""
        self.send(Progress(phase=phase, done=done, says=says, params=params))

    def answer(self, work: Callable[[], BaseModel]) -> None:
        """The last line of a verb on a folder: what `work` made, or the problems that stood in its way."""
        try:
            made = work()
        except Refused as refused:
            self.send(Answer(problems=refused.problems))
        except (NotFound, BrokenFile) as error:
            self.send(Answer(problems=(Problem(code="model-missing", says=error.says, params=error.params),)))
        else:
            self.send(Answer(value=made.model_dump(mode="json")))
