"""What comes out of a data set, counted: every kind of problem with its first rows and a quotation."""

from __future__ import annotations

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
        self.usable = 0
        self.changed = 0
        self._kinds: dict[tuple[str, Severity], _Kind] = {}
        self._whole: list[DataProblem] = []
        self._last: list[DataProblem] = []

    def add(self, judged: Judged) -> None:
        self.total += 1
        self.usable += judged.usable
        if judged.findings:
            self.changed += judged.changed
            self._note(judged)

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
        """The data set as a whole is refused, whatever its rows were."""
        self.total = max(self.total, item.row)
        self.usable = self.changed = 0
        fault = item.fault
        row = fault.params.get("row")
        rows = (row,) if isinstance(row, int) else ()
        self._whole.append(
            DataProblem(code=fault.code, severity="error", count=1, rows=rows, says=fault.says, params=fault.params)
        )

    def whole(self, code: str, severity: Severity, says: str | None = None, **params: Scalar) -> None:
        """Something about the file itself."""
        self._whole.append(DataProblem(code=code, severity=severity, count=1, says=says, params=params))

    def rows(self, code: str, severity: Severity, count: int, rows: tuple[int, ...]) -> None:
        """Something about rows that was found at the end."""
        self._last.append(
            DataProblem(code=code, severity=severity, count=count, rows=rows, params=_params(count, rows))
        )

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
        return (*self._whole, *of_rows, *self._last)


def _params(count: int, rows: list[int] | tuple[int, ...]) -> dict[str, Scalar]:
    return {"count": count, "rows": ", ".join(map(str, rows)) + (" …" if count > len(rows) else "")}
