"""What somebody gave, in a sentence: a value short enough to show, and the kind of value that it is."""

from __future__ import annotations

import math
from collections.abc import Mapping

from zeroboard.contract.problems import Scalar

MOST = 60
"""Characters of a text that are shown."""


def shown(given: object, *, quoted: bool = False) -> Scalar:
    """A value as it may stand in a sentence: short, never a structure, never NaN. `quoted`: texts get marks."""
    if given is None or isinstance(given, bool):
        return given
    if isinstance(given, float):
        return given if math.isfinite(given) else str(given)
    if isinstance(given, int):
        return given if abs(given) < 2**53 else f"{given:.3g}" if abs(given) < 10**300 else "> 1e300"
    if isinstance(given, str):
        return f'"{given[:MOST]}"' if quoted else given[:MOST]
    return json_kind(given)


def json_kind(given: object) -> str:
    """The kind of a value in the words of JSON; of what JSON has not (a date of YAML) the name of its type."""
    if given is None:
        return "null"
    for kinds, name in (((bool,), "boolean"), ((int, float), "number"), ((str,), "text"), ((list, tuple), "list")):
        if isinstance(given, kinds):
            return name
    return "object" if isinstance(given, Mapping) else type(given).__name__
