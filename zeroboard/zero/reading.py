"""A user's DeepSpeed file as bytes → the object in it, or one clear sentence why there is none.

Covered: a byte order mark, other encodings, an empty file, comments, trailing commas, NaN, numbers of thousands of
digits, YAML, something that is no object, keys that are given twice, deep nesting, too many bytes. Nothing raises.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from zeroboard.contract.problems import Problem, Scalar

SIZE_LIMIT = 1 << 20
"""Bytes of the largest DeepSpeed file that is read."""
DEEPEST = 32
"""Levels of nesting; DeepSpeed's own keys go four deep."""

_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_YAML = re.compile(r"^(?:---\s*$|[A-Za-z_][\w-]*\s*:)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a file came to."""

    value: dict[str, Any] | None
    """None where it holds no object."""
    problems: tuple[Problem, ...]


def read(data: bytes, size: int | None = None) -> Read:
    """The object in the file. `size` is the file's, where `data` is but its beginning."""
    length = size if size is not None else len(data)
    if length > SIZE_LIMIT:
        return _none("too-large", size=length, most=SIZE_LIMIT)
    problems: list[Problem] = []
    encoding = "utf-8"
    for mark, name in _MARKS:
        if data.startswith(mark):
            data, encoding = data[len(mark) :], name
            problems.append(Problem(code="bom-removed", severity="warning"))
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return _none("encoding")
    if not text.strip():
        return _none("empty")
    try:
        value = json.loads(text, object_pairs_hook=_Pairs, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        return _not_json(text, error)
    except _TooLarge as error:
        return _none("infinite", name=error.name)
    except _Constant as error:
        return _none("nan", name=error.name)
    except RecursionError:
        return _none("deep", most=DEEPEST)
    except ValueError:  # Python reads no whole number of more than some thousand digits
        return _none("number")
    if not isinstance(value, dict):
        return _none("object", found=type(value).__name__ if value is not None else "null")
    if _depth(value) > DEEPEST:
        return _none("deep", most=DEEPEST)
    if "\\u" in text and not _encodable(value):
        return _none("encoding")
    problems += [Problem(code="duplicate-key", field=path, says="problem.duplicate-key.file", params={"key": path})
                 for path in _twice(value, "")]  # fmt: skip
    return Read(value=_plain(value), problems=tuple(problems))


class _Pairs(dict[str, Any]):
    """An object that remembers which of its keys were given twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        self.twice: list[str] = []
        for key, _ in pairs:
            if key in seen and key not in self.twice:
                self.twice.append(key)
            seen.add(key)


class _Constant(Exception):
    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


def _no_constant(name: str) -> NoReturn:
    raise _Constant(name)


class _TooLarge(_Constant):
    """A number that a computer can hold only as infinite."""


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _TooLarge(text[:40])
    return number


def _none(variant: str, **params: Scalar) -> Read:
    problem = Problem(code="not-json", says=f"problem.not-json.file-{variant}", params=params)
    return Read(value=None, problems=(problem,))


def _not_json(text: str, error: json.JSONDecodeError) -> Read:
    """Say what people most often mean; else where reading ended."""
    rest, before = text[error.pos :], text[: error.pos].rstrip()
    line: dict[str, Scalar] = {"line": error.lineno}
    if rest.startswith(("//", "/*", "#")):
        return _none("comment", **line)
    if before.endswith(",") and rest[:1] in "]}":
        return _none("comma", **line)
    # newer Pythons stand on the comma itself
    if rest.startswith(",") and re.match(r",\s*[\]}]", rest):
        return _none("comma", **line)
    if not text.lstrip().startswith(("{", "[")) and _YAML.search(text):
        return _none("yaml")
    return _none("line", **line)


def _depth(value: Any, level: int = 0) -> int:
    """Levels of nesting; stops counting once it is too much."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if level > DEEPEST:
        return level
    return max((_depth(one, level + 1) for one in inner), default=level)


def _encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _twice(value: Any, prefix: str) -> Iterator[str]:
    """Dotted paths of keys that were given twice."""
    if isinstance(value, _Pairs):
        yield from (prefix + key for key in value.twice)
        for key, inner in value.items():
            yield from _twice(inner, f"{prefix}{key}.")
    elif isinstance(value, list):
        for inner in value:
            yield from _twice(inner, prefix)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
