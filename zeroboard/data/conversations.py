"""The one form that training knows: conversations. Every trainable row of every format becomes one."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from zeroboard.contract.mix import PLAIN, Mix
from zeroboard.contract.problems import Problem
from zeroboard.contract.reports import TRAINABLE_FORMATS, DataFormat
from zeroboard.data.opening import FileFault, open_data
from zeroboard.data.records import Fault, OnProgress, part_of
from zeroboard.data.rows import Conversation, Judged
from zeroboard.data.turns import Role, Turn
from zeroboard.errors import Refused

__all__ = ["Conversation", "Role", "Turn", "conversations", "not_trained_on", "trained_rows", "usable_rows"]


def conversations(
    path: Path, columns: Mapping[str, str] = MappingProxyType({}), mix: Mix = PLAIN
) -> Iterator[Conversation]:
    """The conversations of `trained_rows`."""
    for _, row in trained_rows(path, columns=columns, mix=mix):
        if row.conversation is not None:
            yield row.conversation


def trained_rows(
    path: Path,
    on_progress: OnProgress | None = None,
    *,
    columns: Mapping[str, str] = MappingProxyType({}),
    mix: Mix = PLAIN,
) -> Iterator[tuple[int, Judged]]:
    """The usable rows of all that is trained on, numbered through, each with the number of its part: 0 for `path`, then
    those of `mix`. Raises as `usable_rows` does."""
    parts = ((path, columns), *((Path(part.path), part.columns) for part in mix.more))
    last = 0
    for number, (place, meant) in enumerate(parts):
        rows = usable_rows(place, part_of(on_progress, number, len(parts)), columns=meant, start=last)
        while True:
            try:
                row = next(rows)
            except StopIteration as end:
                last = end.value
                break
            yield number, row


def usable_rows(
    path: Path,
    on_progress: OnProgress | None = None,
    *,
    columns: Mapping[str, str] = MappingProxyType({}),
    start: int = 0,
) -> Generator[Judged, None, int]:
    """The usable rows of a data file, or of a folder of them, in order, judged by the code of `judge`.

    Raises `Refused` (code `data-refused`) where the file as a whole is refused, which may be found late (an array
    that breaks off), or where its format is not trained on, and `NotFound` where nothing is. Rows that are refused are
    left out: `judge` names them. `on_progress` is called with the share that is read. `columns`: see `open_data`. Rows
    are numbered from `start` + 1; returned is the number of the last record.
    """
    last = start
    files = open_data(path, columns).files
    for number, file in enumerate(files):
        if file.fault is None and file.kind not in TRAINABLE_FORMATS:
            raise _refused(not_trained_on(file.kind))
        for item in file.rows(last, part_of(on_progress, number, len(files))):
            if isinstance(item, FileFault):
                raise _refused(item.fault)
            last = item.row
            if item.conversation is not None:
                yield item
    return last


def not_trained_on(kind: DataFormat) -> Fault:
    """Why nothing of this format is."""
    return Fault(code="unknown-format", says=f"data.unknown-format.{kind}")


def _refused(fault: Fault) -> Refused:
    says = fault.says or f"data.{fault.code}"
    return Refused([Problem(code="data-refused", field="data.path", says=says, params=fault.params)])
