"""Problems are values: what is wrong, where, how bad, and what would mend it; the sentence is made at the face."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from zeroboard.contract.base import Record

Severity = Literal["error", "warning", "info"]

Scalar = str | int | float | bool | None


class Problem(Record):
    """One thing that is wrong with a wish, a file or a machine."""

    code: str
    """The stable name, of the lists of the command line's reference."""
    severity: Severity = "error"
    """error: refused · warning: goes on, told · info."""
    field: str | None = None
    """Dotted key of the spec (or of the file) that it is about."""
    says: str | None = None
    """Key of the sentence where it is not `problem.<code>`; the remedy's key is that plus `.remedy`."""
    params: dict[str, Scalar] = {}
    """What fills the sentence."""
    set: dict[str, Scalar] | None = None
    """Fields that would mend it, with their values: the remedy as a button."""

    @property
    def message_key(self) -> str:
        return self.says or f"problem.{self.code}"

    @property
    def remedy_key(self) -> str:
        return f"{self.message_key}.remedy"


def errors(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Those that refuse."""
    return tuple(p for p in problems if p.severity == "error")


def problem(
    code: str,
    field: str | None,
    variant: str | None = None,
    params: Mapping[str, Scalar] | None = None,
    *,
    severity: Severity = "error",
    mend: Mapping[str, Scalar] | None = None,
) -> Problem:
    """A problem whose sentence is that of the code, or of one of its variants; `mend` is the remedy as a button."""
    says = f"problem.{code}.{variant}" if variant is not None else None
    set_to = dict(mend) if mend is not None else None
    return Problem(code=code, severity=severity, field=field, says=says, params=dict(params or {}), set=set_to)
