"""The exceptions of ZeroBoard: what cannot go on.

What can go on is a value instead: see `zeroboard.contract.problems`.

    ZeroBoardError
    ├── UsageError            wrong usage or a missing file            exit code 2
    │   ├── NotFound          a run, file or folder that is not there
    │   └── UnsafePath        a path that leaves the folders it may use
    ├── Refused               the input was judged and refused         exit code 1
    ├── Busy                  somebody else holds what is needed       exit code 1
    ├── BrokenFile            a file of ours that cannot be read       exit code 1
    └── EngineFailed          an engine process ended badly            exit code 1

Every exception carries `says`, a key of the language files, and the parameters of its sentence; the face
(page or command line) makes the sentence in its own language.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeroboard.contract.problems import Problem


class ZeroBoardError(Exception):
    """Base of all. `says` is a message key, `params` fill the sentence; `str()` is for logs only."""

    exit_code = 1

    def __init__(self, says: str, **params: Any) -> None:
        self.says = says
        self.params = params
        super().__init__(f"{says} {params}" if params else says)


class UsageError(ZeroBoardError):
    """Wrong usage: the command or the request itself makes no sense."""

    exit_code = 2


class NotFound(UsageError):
    """A run, a file or a folder that was named is not there."""


class UnsafePath(UsageError):
    """A path leads out of the folders that it may lead into."""


class Refused(ZeroBoardError):
    """The input was judged and refused; `problems` says why, all of it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("error.refused", count=len(self.problems))


class Busy(ZeroBoardError):
    """The devices, or the run, are in somebody else's hands."""


class BrokenFile(ZeroBoardError):
    """A file that ZeroBoard wrote cannot be read back."""


class EngineFailed(ZeroBoardError):
    """An engine process ended without its report. `params` holds `verb`, `code` and `tail` (its last lines)."""
