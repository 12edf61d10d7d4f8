"""A data file, or a folder of them, opened: what each file is, and its records as they are judged."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from zeroboard.contract.problems import Scalar
from zeroboard.contract.reports import TRAINABLE_FORMATS, DataFormat
from zeroboard.data.columns import Names, choose, mapping
from zeroboard.data.excerpts import harmless
from zeroboard.data.folders import MOST, list_files
from zeroboard.data.reading import Source, open_source, records
from zeroboard.data.records import OVERSIZED, Fault, OnProgress, Record
from zeroboard.data.rows import Judged, judge_row, recognise
from zeroboard.data.turns import Finding

LOOK_AHEAD = 100
"""Records in which the format is looked for."""
MOST_COLUMNS = 64
LONGEST_NAME = 200
"""Columns, and characters of a column's name, that can be chosen from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFault:
    """The file as a whole is refused; nothing comes after it."""

    fault: Fault
    row: int = 0
    """The record that broke, or the last one; 0: none was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """One file: what it is."""

    source: Source
    kind: DataFormat = "unknown"
    names: Names = field(default_factory=Names)
    """By which names its columns are read."""
    columns: tuple[str, ...] = ()
    """What the columns of its first records are called there."""
    fault: Fault | None = None
    """Nothing in it can be trained on, nor compared: no row of it is judged."""

    def rows(self, start: int = 0, on_progress: OnProgress | None = None) -> Generator[Judged | FileFault, None, None]:
        """The records as they are judged, numbered from `start` + 1; a `FileFault` is the last."""
        if self.fault is not None:
            counted = 0 if self.source.fault else sum(1 for _ in records(self.source, on_progress))
            yield FileFault(fault=self.fault, row=start + counted)
            return
        with closing(records(self.source, on_progress)) as stream:
            for record in stream:
                if record.fault is not None:
                    yield FileFault(fault=_moved(record.fault, start), row=start + record.row)
                    return
                yield _judge(record, start + record.row, self.kind, self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """The files that are one data set: one, or those of a folder."""

    files: tuple[DataSource, ...]
    """At least one; of a folder those that can be trained on, where there are any."""
    folder: Path | None = None
    left: tuple[str, ...] = ()
    """Names of files of the folder that are left out."""


def open_data(path: Path, columns: Mapping[str, str] = MappingProxyType({})) -> DataSet:
    """Look at the file, or at the files of the folder. Raises `NotFound` where nothing is.

    `columns`: what a person says that columns mean, our name → theirs; the others are recognised by their names.
    """
    if not path.is_dir():
        return DataSet(files=(_look(path, columns),))
    found = list_files(path)
    if found is None:
        fault = Fault(
            code="path-refused", says="data.path-refused.folder", params={"path": harmless(str(path)), "most": MOST}
        )
        return DataSet(files=(_refused(path, fault),), folder=path)
    others = tuple(str(file.relative_to(path)) for file in found.others)
    if not found.data:
        fault = Fault(code="empty-file", says="data.empty-file.folder")
        return DataSet(files=(_refused(path, fault),), folder=path, left=others)
    looked = [_look(file, columns) for file in found.data]
    good = tuple(file for file in looked if file.kind in TRAINABLE_FORMATS)
    skipped = tuple(str(f.source.path.relative_to(path)) for f in looked if good and f not in good)
    return DataSet(files=good or tuple(looked[:1]), folder=path, left=(*skipped, *others))


def _refused(path: Path, fault: Fault) -> DataSource:
    return DataSource(source=Source(path=path, fault=fault), fault=fault)


def _look(path: Path, columns: Mapping[str, str]) -> DataSource:
    source = open_source(path)
    if source.fault is not None:
        return DataSource(source=source, fault=source.fault)
    with closing(records(source)) as stream:
        first = list(islice(stream, LOOK_AHEAD))
    objects = [r.value for r in first if r.broken is None and isinstance(r.value, dict)]
    there = tuple(islice(dict.fromkeys(key for value in objects for key in value if _is_named(key)), MOST_COLUMNS))
    absent = sorted(set(columns.values()) - {key for value in objects for key in value})
    if objects and absent:
        params: dict[str, Scalar] = {"absent": harmless(", ".join(absent)), "keys": harmless(", ".join(there))}
        fault = Fault(code="unknown-format", says="data.unknown-format.absent", params=params)
        return DataSource(source=source, columns=there, fault=fault)
    kind, names = _chosen(objects, columns) if columns else _format(objects)
    unknown = None if kind != "unknown" else _unknown(first)
    return DataSource(source=source, kind=kind, names=names, columns=there, fault=unknown)


def _is_named(key: str) -> bool:
    """A name that can be chosen: neither empty nor endless, and a text that can be written."""
    return 0 < len(key) <= LONGEST_NAME and not any("\ud800" <= letter <= "\udfff" for letter in key)


def _chosen(objects: list[dict[str, Any]], columns: Mapping[str, str]) -> tuple[DataFormat, Names]:
    """The format of the first record that has one when its columns are read as a person says."""
    names = Names()
    for value in objects:
        names = choose(value, columns)
        kind = recognise(names.read(value))
        if kind != "unknown":
            return kind, names
    return "unknown", names


def _format(objects: list[dict[str, Any]]) -> tuple[DataFormat, Names]:
    """The format of the first record that has one, and by which names its columns go."""
    for value in objects:
        kind = recognise(value)
        if kind == "unknown" or (kind == "alpaca" and "output" not in value):
            names = Names(known=mapping(value))
            renamed = recognise(names.read(value)) if names.known else "unknown"
            if renamed != "unknown" and (renamed != "alpaca" or "output" in {*names.known.values(), *value}):
                return renamed, names
        if kind != "unknown":
            return kind, Names()
    return "unknown", Names()


def _unknown(first: list[Record]) -> Fault:
    """Why the records are in no format."""
    if not first:
        return Fault(code="empty-file")
    broken = next((record.fault for record in first if record.fault is not None), None)
    if broken is not None:
        return broken
    if all(record.broken == "broken-character" for record in first):
        return Fault(code="not-json", says="data.not-json.encoding")
    if all(record.broken is not None for record in first):
        return Fault(code="not-json", says="data.not-json.file")
    value = next((record.value for record in first if isinstance(record.value, dict) and record.value), None)
    if value is None:
        return Fault(code="unknown-format", says="data.unknown-format.no-object")
    return Fault(code="unknown-format", params={"keys": harmless(", ".join(str(key)[:40] for key in islice(value, 8)))})


def _moved(fault: Fault, start: int) -> Fault:
    """The fault with its record numbered through the folder."""
    row = fault.params.get("row")
    if not start or not isinstance(row, int):
        return fault
    return Fault(code=fault.code, says=fault.says, params={**fault.params, "row": row + start})


def _judge(record: Record, row: int, kind: DataFormat, names: Names) -> Judged:
    if record.broken is not None:
        says = "data.oversized-row.unread" if record.broken == "oversized-row" else None
        detail = "UTF-8" if record.broken == "broken-character" else None
        finding = Finding(code=record.broken, refused=True, detail=detail, says=says)
        return Judged(row, False, None, (finding,), record.value)
    value = record.value
    if isinstance(value, dict) and (names.known or names.chosen):
        value = names.read(value)
    judged = judge_row(row, value, kind)
    if record.repeated is None and record.size <= OVERSIZED:
        return judged
    more: list[Finding] = []
    if record.repeated is not None:
        more.append(Finding(code="duplicate-key", detail=record.repeated[:40]))
    if record.size > OVERSIZED:
        more.append(Finding(code="oversized-row"))
    return Judged(row, judged.usable, judged.conversation, (*judged.findings, *more), value)
