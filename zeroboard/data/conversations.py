"""The one form that training knows: conversations. Every trainable row of every format becomes one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from zeroboard.contract.problems import Problem
from zeroboard.data.judge import FileFault, judged_file
from zeroboard.data.rows import Conversation
from zeroboard.data.turns import Role, Turn
from zeroboard.errors import Refused

__all__ = ["Conversation", "Role", "Turn", "conversations"]


def conversations(path: Path) -> Iterator[Conversation]:
    """The usable rows of a data file, in its order, judged by the code of `judge`.

    Raises `Refused` (code `data-refused`) where the file as a whole is refused, which may be found late (an array
    that breaks off), and `NotFound` where there is no such file. Rows that are refused are left out: `judge` names
    them.
    """
    for item in judged_file(path).rows:
        if isinstance(item, FileFault):
            fault = item.fault
            says = fault.says or f"data.{fault.code}"
            raise Refused([Problem(code="data-refused", field="data.path", says=says, params=fault.params)])
        if item.conversation is not None:
            yield item.conversation
