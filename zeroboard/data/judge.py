"""Judging a data file: how many rows can be used, which cannot, and why; nothing is dropped in silence.

`judged_file` is the one pass over a file: `judge` counts it, `conversations` filters it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from zeroboard.contract.problems import Severity
from zeroboard.contract.reports import DataProblem, DataReport
from zeroboard.data.reading import Fault, OnProgress, Record, open_source, records
from zeroboard.data.rows import TRAINABLE, Format, Judged, judge_row, recognise
from zeroboard.data.turns import Finding

ROWS_NAMED = 20
"""How many row numbers a problem names."""
LOOK_AHEAD = 100
"""Records in which the format is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFault:
    """The file as a whole is refused; nothing comes after it."""

    fault: Fault
    row: int = 0
    """Records seen, the one that broke included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFile:
    """A data file: what it is, and its records as they are judged."""

    kind: Format
    bom: bool
    rows: Iterator[Judged | FileFault]
    """In the file's order, to be gone through once; a `FileFault` is the last."""


def judged_file(path: Path, *, on_progress: OnProgress | None = None) -> JudgedFile:
    """Open a data file and judge it while its rows are gone through. Raises `NotFound` where there is no file."""
    source = open_source(path)
    if source.fault is not None:
        return JudgedFile(kind="unknown", bom=source.bom, rows=iter((FileFault(fault=source.fault),)))
    stream = records(source, on_progress)
    first = list(islice(stream, LOOK_AHEAD))
    kind = _format(first)
    return JudgedFile(kind=kind, bom=source.bom, rows=_rows(kind, first, stream))


def judge(path: Path, *, on_progress: OnProgress | None = None) -> DataReport:
    """A data file, judged whole. Raises `NotFound` where there is no such file.

    `usable` is 0 where the file as a whole is refused. `on_progress` is called with the share that is read.
    """
    file = judged_file(path, on_progress=on_progress)
    tally = _Tally()
    for item in file.rows:
        if isinstance(item, FileFault):
            tally.fail(item)
        else:
            tally.add(item)
    if file.bom:
        tally.note("bom-removed", "info")
    return DataReport(
        path=str(path),
        format=file.kind,
        encoding="utf-8-sig" if file.bom else "utf-8",
        total=tally.total,
        usable=tally.usable,
        refused=tally.total - tally.usable,
        changed=tally.changed,
        problems=tally.problems(),
    )


def _rows(kind: Format, first: list[Record], stream: Iterator[Record]) -> Iterator[Judged | FileFault]:
    if not first:
        yield FileFault(fault=Fault(code="empty-file"))
    elif kind not in TRAINABLE:
        yield FileFault(fault=_untrainable(first, kind), row=len(first) + sum(1 for _ in stream))
    else:
        for record in chain(first, stream):
            if record.fault is not None:
                yield FileFault(fault=record.fault, row=record.row)
                return
            yield _judge(record, kind)


def _format(first: list[Record]) -> Format:
    """The format of the first record that has one."""
    kinds = (recognise(record.value) for record in first if record.broken is None)
    return next((kind for kind in kinds if kind != "unknown"), "unknown")


def _untrainable(first: list[Record], kind: Format) -> Fault:
    """Why no row of it is trained on."""
    broken = next((record.fault for record in first if record.fault is not None), None)
    if broken is not None:
        return broken
    if all(record.broken == "broken-character" for record in first):
        return Fault(code="not-json", says="data.not-json.encoding")
    if all(record.broken is not None for record in first):
        return Fault(code="not-json", says="data.not-json.file")
    if kind != "unknown":
        return Fault(code="unknown-format", says=f"data.unknown-format.{kind}")
    keys = _keys(first)
    if keys is None:
        return Fault(code="unknown-format", says="data.unknown-format.no-object")
    return Fault(code="unknown-format", params={"keys": keys})


def _keys(first: list[Record]) -> str | None:
    """Names of the fields of the first record that has any, for the sentence."""
    value = next((record.value for record in first if isinstance(record.value, dict) and record.value), None)
    return ", ".join(str(key)[:40] for key in islice(value, 8)) if value is not None else None


def _judge(record: Record, kind: Format) -> Judged:
    if record.broken is not None:
        return Judged(row=record.row, conversation=None, findings=(Finding(code=record.broken, refused=True),))
    return judge_row(record.row, record.value, kind)


@dataclass(slots=True)
class _Kind:
    """One kind of problem, while it is counted."""

    severity: Severity
    says: str | None
    count: int = 0
    rows: list[int] = field(default_factory=list)
    details: dict[str, None] = field(default_factory=dict)


class _Tally:
    """Counts what comes out of a file."""

    def __init__(self) -> None:
        self.total = 0
        self.usable = 0
        self.changed = 0
        self._kinds: dict[tuple[str, Severity], _Kind] = {}
        self._whole: list[DataProblem] = []

    def add(self, judged: Judged) -> None:
        self.total += 1
        self.usable += judged.conversation is not None
        self.changed += judged.changed
        seen: set[tuple[str, Severity]] = set()
        for finding in judged.findings:
            severity: Severity = "error" if finding.refused else "warning"
            kind = self._kinds.setdefault((finding.code, severity), _Kind(severity=severity, says=finding.says))
            if finding.detail is not None and len(kind.details) < 5:
                kind.details[finding.detail] = None
            if (finding.code, severity) in seen:
                continue
            seen.add((finding.code, severity))
            kind.count += 1
            if len(kind.rows) < ROWS_NAMED:
                kind.rows.append(judged.row)

    def fail(self, item: FileFault) -> None:
        """The file as a whole is refused, whatever its rows were."""
        self.total = max(self.total, item.row)
        self.usable = self.changed = 0
        fault = item.fault
        row = fault.params.get("row")
        self._whole.append(
            DataProblem(
                code=fault.code,
                severity="error",
                count=1,
                rows=(row,) if isinstance(row, int) else (),
                says=fault.says,
                params=fault.params,
            )
        )

    def note(self, code: str, severity: Severity) -> None:
        self._whole.append(DataProblem(code=code, severity=severity, count=1))

    def problems(self) -> tuple[DataProblem, ...]:
        """Those of the file first, then those of rows in the order of their first row."""
        of_rows = [
            DataProblem(
                code=code,
                severity=kind.severity,
                count=kind.count,
                rows=tuple(kind.rows),
                says=kind.says,
                params={
                    "count": kind.count,
                    "rows": ", ".join(map(str, kind.rows)) + (" …" if kind.count > len(kind.rows) else ""),
                    "details": ", ".join(kind.details) or "-",
                },
            )
            for (code, _), kind in self._kinds.items()
        ]
        return (*self._whole, *of_rows)
