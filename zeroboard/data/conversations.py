"""The one form that training knows: conversations. Every trainable row of every format becomes one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from zeroboard.contract.problems import Problem
from zeroboard.contract.reports import TRAINABLE_FORMATS
from zeroboard.data.opening import FileFault, open_data
from zeroboard.data.records import Fault, OnProgress, part_of
from zeroboard.data.rows import Conversation, Judged
from zeroboard.data.turns import Role, Turn
from zeroboard.errors import Refused

__all__ = ["Conversation", "Role", "Turn", "conversations", "usable_rows"]


def conversations(path: Path, columns: Mapping[str, str] = MappingProxyType({})) -> Iterator[Conversation]:
    """The conversations of `usable_rows`."""
    for row in usable_rows(path, columns=columns):
        if row.conversation is not None:
            yield row.conversation


def usable_rows(
    path: Path, on_progress: OnProgress | None = None, *, columns: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Judged]:
    """The usable rows of a data file, or of a folder of them, in order, judged by the code of `judge`.

    Raises `Refused` (code `data-refused`) where the file as a whole is refused, which may be found late (an array
    that breaks off), or where its format is not trained on, and `NotFound` where nothing is. Rows that are refused are
    left out: `judge` names them. `on_progress` is called with the share that is read. `columns`: see `open_data`.
    """
    last = 0
    files = open_data(path, columns).files
    for number, file in enumerate(files):
        if file.fault is None and file.kind not in TRAINABLE_FORMATS:
            raise _refused(Fault(code="unknown-format", says=f"data.unknown-format.{file.kind}"))
        for item in file.rows(last, part_of(on_progress, number, len(files))):
            if isinstance(item, FileFault):
                raise _refused(item.fault)
            last = item.row
            if item.conversation is not None:
                yield item


def _refused(fault: Fault) -> Refused:
    says = fault.says or f"data.{fault.code}"
    return Refused([Problem(code="data-refused", field="data.path", says=says, params=fault.params)])
