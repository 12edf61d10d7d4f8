"""What every reader gives: records, numbered from 1, and the fault after which nothing more can be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from zeroboard.contract.problems import Scalar

OnProgress = Callable[[float], None]
"""Called now and then with the share that is done, 0 to 1."""


def part_of(on_progress: OnProgress | None, number: int, count: int) -> OnProgress | None:
    """The progress of one file of several."""
    if on_progress is None or count == 1:
        return on_progress
    return lambda share: on_progress((number + share) / count)


LARGEST_ROW = 16 << 20
"""Bytes of a record that are read; one that is larger is refused unread, so that no file can fill the memory."""

OVERSIZED = 1 << 20
"""Bytes of a record from which on it is told: that is longer than models read."""

Broken = Literal["not-json", "broken-character", "oversized-row", "ragged-row", "unbalanced-quotes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a file as a whole is no data."""

    code: Literal["not-json", "not-a-data-file", "empty-file", "unknown-format", "path-refused"]
    says: str | None = None
    """Key of the sentence where it is not `data.<code>`."""
    params: dict[str, Scalar] = field(default_factory=dict)


def damaged(kind: str, error: BaseException) -> Fault:
    """The fault of a packed file that cannot be read on from here."""
    why = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return Fault(code="not-a-data-file", says="data.not-a-data-file.damaged", params={"kind": kind, "why": why})


class Record(NamedTuple):
    """One record, read or not. A named tuple, which is made in half the time of a frozen dataclass."""

    row: int
    value: Any = None
    broken: Broken | None = None
    """Why it could not be read; None where it was. `value` is then what stands there, as text."""
    repeated: str | None = None
    """A key that an object of it gives twice."""
    size: int = 0
    """Bytes that it takes, where it is known to be large or not; else 0."""
    fault: Fault | None = None
    """The file cannot be read on from here: the last record that comes."""
