"""Judging a data file: how many rows can be used, which cannot, and why; nothing is dropped in silence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from zeroboard.contract.reports import DataFile, DataReport
from zeroboard.data.duplicates import Duplicates, digest
from zeroboard.data.excerpts import harmless
from zeroboard.data.opening import DataSource, FileFault, open_data
from zeroboard.data.records import OnProgress, part_of
from zeroboard.data.rows import Judged
from zeroboard.data.tally import ROWS_NAMED, Tally

__all__ = ["ROWS_NAMED", "judge"]


def judge(
    path: Path, *, columns: Mapping[str, str] = MappingProxyType({}), on_progress: OnProgress | None = None
) -> DataReport:
    """A data file, or a folder of them, judged whole. Raises `NotFound` where nothing is.

    `usable` is 0 where the file as a whole is refused. `on_progress` is called with the share that is read.
    `columns`: see `open_data`.
    """
    data = open_data(path, columns)
    tally = Tally()
    files: list[DataFile] = []
    with Duplicates(ROWS_NAMED) as duplicates:
        for number, file in enumerate(data.files):
            before = tally.total
            _tell_file(file, tally)
            _judge_file(file, tally, duplicates, part_of(on_progress, number, len(data.files)))
            if data.folder is not None and file.fault is None:
                name = harmless(str(file.source.path.relative_to(data.folder)))
                files.append(DataFile(name=name, format=file.kind, first=before + 1, rows=tally.total - before))
        count, rows = duplicates.finish() if tally.usable else (0, ())
    if count:
        tally.rows("duplicate-row", "warning", count, rows)
    if data.left:
        names = ", ".join(map(harmless, data.left[:ROWS_NAMED])) + (" …" if len(data.left) > ROWS_NAMED else "")
        tally.whole("not-a-data-file", "warning", "data.not-a-data-file.left-out", count=len(data.left), names=names)
    if data.files[0].kind == "preference":
        tally.whole("unknown-format", "warning", "data.unknown-format.preference")
    return DataReport(
        path=str(path),
        format=data.files[0].kind,
        encoding=", ".join(sorted({file.source.encoding.name for file in data.files})),
        total=tally.total,
        usable=tally.usable,
        refused=tally.total - tally.usable,
        changed=tally.changed,
        problems=tally.problems(),
        files=tuple(files),
        columns=data.files[0].columns,
    )


def _judge_file(file: DataSource, tally: Tally, duplicates: Duplicates, on_progress: OnProgress | None) -> None:
    for item in file.rows(tally.total, on_progress):
        if isinstance(item, FileFault):
            tally.fail(item)
            return
        tally.add(item)
        if item.usable:
            duplicates.add(item.row, _digest(item))


def _tell_file(file: DataSource, tally: Tally) -> None:
    """What was done to read it."""
    source = file.source
    if source.bom:
        tally.whole("bom-removed", "info")
    if source.encoding.guessed:
        tally.whole("encoding-guessed", "warning", encoding=source.encoding.name)
    if source.delimiter is not None:
        names = {"\t": "TAB"}
        tally.whole("delimiter-guessed", "info", delimiter=names.get(source.delimiter, source.delimiter))
    if file.names.pairs and file.fault is None:
        pairs = ", ".join(f"{theirs} → {ours}" for theirs, ours in file.names.pairs.items())
        tally.whole("columns-mapped", "info", pairs=harmless(pairs))


def _digest(judged: Judged) -> int:
    """What makes two rows the same, all that training sees of them, as a number."""
    made = judged.conversation
    if made is None:
        return digest(repr(judged.value))
    if made.text is not None:
        return digest(made.text)
    try:
        return digest((made.turns, made.tools))
    except TypeError:  # calls and tools hold mappings
        return digest(repr((made.turns, made.tools)))
