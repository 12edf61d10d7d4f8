"""What comes out of a data set, counted: every kind of problem with its first rows and a quotation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from zeroboard.contract.problems import Scalar, Severity
from zeroboard.contract.reports import DataProblem
from zeroboard.data.excerpts import excerpt, harmless
from zeroboard.data.opening import FileFault
from zeroboard.data.rows import Judged

ROWS_NAMED = 20
"""How many row numbers a problem names."""
_DETAILS = 5


@dataclass(slots=True)
class _Kind:
    """One kind of problem, while it is counted."""

    severity: Severity
    says: str | None
    excerpt: str
    count: int = 0
    rows: list[int] = field(default_factory=list)
    details: dict[str, None] = field(default_factory=dict)


class Tally:
    """Counts rows as they are judged."""

    def __init__(self) -> None:
        self.total = 0
        self.good = 0
        """Rows that can be used, whatever became of the whole."""
        self.mended = 0
        """Of these."""
        self.file: str | None = None
        """The one of several files that is being read."""
        self._failed = False
        self._kinds: dict[tuple[str, Severity], _Kind] = {}
        self._whole: list[DataProblem] = []

    def add(self, judged: Judged) -> None:
        self.total += 1
        self.good += judged.usable
        if judged.findings:
            self.mended += judged.changed
            self._note(judged)

    @property
    def usable(self) -> int:
        """Rows that can be used; none where the whole is refused."""
        return 0 if self._failed else self.good

    @property
    def changed(self) -> int:
        """Of the usable ones."""
        return 0 if self._failed else self.mended

    def _note(self, judged: Judged) -> None:
        seen: set[tuple[str, Severity]] = set()
        for finding in judged.findings:
            severity: Severity = "error" if finding.refused else "warning"
            key = (finding.code, severity)
            kind = self._kinds.get(key)
            if kind is None:
                kind = self._kinds[key] = _Kind(severity, finding.says, excerpt(judged.value))
            if finding.detail is not None and len(kind.details) < _DETAILS:
                kind.details[harmless(finding.detail)] = None
            if key in seen:
                continue
            seen.add(key)
            kind.count += 1
            if len(kind.rows) < ROWS_NAMED:
                kind.rows.append(judged.row)

    def fail(self, item: FileFault) -> None:
        """The data set as a whole is refused, whatever its rows were, and are."""
        self._failed = True
        self.total = max(self.total, item.row)
        fault = item.fault
        row = fault.params.get("row")
        rows = (row,) if isinstance(row, int) else ()
        self._whole.append(
            DataProblem(
                code=fault.code,
                severity="error",
                count=1,
                rows=rows,
                says=fault.says,
                params=fault.params,
                file=self.file,
            )
        )

    def whole(self, code: str, severity: Severity, says: str | None = None, **params: Scalar) -> None:
        """Something about the file itself."""
        self._whole.append(DataProblem(code=code, severity=severity, count=1, says=says, params=params, file=self.file))

    def problems(self) -> tuple[DataProblem, ...]:
        """Those of the file first, then those of rows in the order of their first row."""
        of_rows = [
            DataProblem(
                code=code,
                severity=kind.severity,
                count=kind.count,
                rows=tuple(kind.rows),
                excerpt=kind.excerpt,
                says=kind.says,
                params={**_params(kind.count, kind.rows), "details": ", ".join(kind.details) or "-"},
            )
            for (code, _), kind in self._kinds.items()
        ]
        return (*self._whole, *of_rows)


def row_problem(code: str, severity: Severity, count: int, rows: Sequence[int], says: str | None = None) -> DataProblem:
    """Something about rows that was found at the end; `rows`: the first of them."""
    params = _params(count, rows)
    return DataProblem(code=code, severity=severity, count=count, rows=tuple(rows), says=says, params=params)


def _params(count: int, rows: Sequence[int]) -> dict[str, Scalar]:
    return {"count": count, "rows": ", ".join(map(str, rows)) + (" …" if count > len(rows) else "")}
