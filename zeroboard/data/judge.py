"""Judging a data file: how many rows can be used, which cannot, and why; nothing is dropped in silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from zeroboard.contract.mix import PLAIN, Mix
from zeroboard.contract.reports import TRAINABLE_FORMATS, DataFile, DataReport
from zeroboard.data.conversations import not_trained_on
from zeroboard.data.duplicates import Copies, Duplicates, digest
from zeroboard.data.excerpts import harmless
from zeroboard.data.opening import DataSet, DataSource, FileFault, open_data
from zeroboard.data.records import OnProgress, part_of
from zeroboard.data.rows import Judged
from zeroboard.data.tally import ROWS_NAMED, Tally, row_problem

__all__ = ["ROWS_NAMED", "judge"]


def judge(
    path: Path,
    *,
    columns: Mapping[str, str] = MappingProxyType({}),
    mix: Mix = PLAIN,
    on_progress: OnProgress | None = None,
) -> DataReport:
    """A data file, or a folder, judged whole, with all that is in the mix. Raises `NotFound` where nothing is.

    `usable` is 0 where one of them is refused as a whole. Rows are numbered through all that is trained on, and anew in
    the evaluation file. `on_progress` is called with the share that is read. `columns`: see `open_data`.
    """
    sets = [open_data(path, columns), *(open_data(Path(part.path), part.columns) for part in mix.more)]
    measured = [open_data(Path(part.path), part.columns) for part in (mix.held_out,) if part is not None]
    count = len(sets) + len(measured)

    def told(number: int) -> OnProgress | None:
        return part_of(on_progress, number, count)

    with Duplicates(ROWS_NAMED) as duplicates:
        trained = sets if count == 1 else [_all_trainable(one) for one in sets]
        report = _judge(trained, told, lambda item: duplicates.add(item.row, _digest(item)))
        held = None
        for one in measured:
            held = _judge(
                [_all_trainable(one)],
                lambda _: told(len(sets)),
                lambda item: duplicates.add(item.row, _digest(item), measured=True),
            )
        duplicates.finish()
    if held is not None:
        held = _told(held, "evaluation-overlap", duplicates.overlap)
        held = _told(held, "duplicate-row", duplicates.measured, "data.duplicate-row.measured")
        held = held.model_copy(update={"overlap": duplicates.overlap.count if held.usable else 0})
    report = _told(report, "duplicate-row", duplicates.trained)
    return report.model_copy(update={"mix": mix.unweighed, "evaluation": held})


def _judge(
    sets: list[DataSet], told: Callable[[int], OnProgress | None], usable: Callable[[Judged], None]
) -> DataReport:
    """What is trained on, or measured, together; `usable` is called with each row that is."""
    tally = Tally()
    files: list[DataFile] = []
    names = _names(sets)
    for part, data in enumerate(sets):
        for number, file in enumerate(data.files):
            name = names[file.source.path]
            tally.file = name if len(names) > 1 else None
            before = (tally.total, tally.good, tally.mended)
            _tell_file(file, tally)
            _judge_file(file, tally, usable, part_of(told(part), number, len(data.files)))
            if len(sets) > 1 or (data.folder is not None and file.fault is None):
                rows, good, mended = tally.total - before[0], tally.good - before[1], tally.mended - before[2]
                files.append(
                    DataFile(
                        name=name, format=file.kind, first=before[0] + 1, rows=rows, usable=good, changed=mended,
                        part=part,
                    )
                )  # fmt: skip
        tally.file = None
        if data.left:
            left = ", ".join(map(harmless, data.left[:ROWS_NAMED])) + (" …" if len(data.left) > ROWS_NAMED else "")
            tally.whole("not-a-data-file", "warning", "data.not-a-data-file.left-out", count=len(data.left), names=left)
    first = sets[0].files[0]
    if first.kind == "preference" and first.fault is None:
        tally.whole("unknown-format", "warning", "data.unknown-format.preference")
    return DataReport(
        path=str(sets[0].folder or first.source.path),
        format=first.kind,
        encoding=", ".join(sorted({file.source.encoding.name for data in sets for file in data.files})),
        total=tally.total,
        usable=tally.usable,
        refused=tally.total - tally.usable,
        changed=tally.changed,
        problems=tally.problems(),
        files=tuple(files),
        columns=first.columns,
    )


def _names(sets: list[DataSet]) -> dict[Path, str]:
    """What each file is called: below its folder; where several are mixed, by its own name or its folder's, or by its
    path where two would be called the same."""
    names: dict[Path, str] = {}
    for data in sets:
        for file in data.files:
            path = file.source.path
            below = data.folder if len(sets) == 1 or data.folder is None else data.folder.parent
            names[path] = str(path.relative_to(below)) if below is not None else path.name
    often = Counter(names.values())
    return {path: harmless(name if often[name] == 1 else str(path)) for path, name in names.items()}


def _all_trainable(data: DataSet) -> DataSet:
    """The set with a fault in each file of a format that is not trained on: whoever names a file with others means all
    of them."""
    return replace(data, files=tuple(_trainable(file) for file in data.files))


def _trainable(file: DataSource) -> DataSource:
    if file.fault is not None or file.kind in TRAINABLE_FORMATS:
        return file
    return replace(file, fault=not_trained_on(file.kind))


def _told(report: DataReport, code: str, copies: Copies, says: str | None = None) -> DataReport:
    """The report with the rows that repeat others; nothing where no row of it is used."""
    if not copies.count or not report.usable:
        return report
    found = row_problem(code, "warning", copies.count, copies.rows, says)
    return report.model_copy(update={"problems": (*report.problems, found)})


def _judge_file(
    file: DataSource, tally: Tally, usable: Callable[[Judged], None], on_progress: OnProgress | None
) -> None:
    for item in file.rows(tally.total, on_progress):
        if isinstance(item, FileFault):
            tally.fail(item)
            return
        tally.add(item)
        if item.usable:
            usable(item)


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
