"""From what a person wrote (YAML, JSON, `--set`) to a `RunSpec`, with everything that is wrong named at once."""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from zeroboard.contract.given import json_kind, shown
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.contract.spec import MOST_MIXED, FieldFacts, RunSpec, fields
from zeroboard.errors import NotFound, Refused, UsageError
from zeroboard.messages import Language, say
from zeroboard.paths import reachable

SIZE_LIMIT = 1 << 20
"""Bytes of the largest spec that is read."""

_FIELDS: dict[str, FieldFacts] = {facts.key: facts for facts in fields()}
_INNER: dict[str, FieldFacts] = {facts.key: facts for whole in _FIELDS.values() for facts in whole.inner}
"""What each of several parts holds (`data.more.weight`)."""
_SECTIONS = frozenset(key.split(".")[0] for key in _FIELDS if "." in key)
_MISSING = {"model": "model-missing", "data": "data-missing"}
_EXAMPLES: dict[str, str] = {"model.path": "SmolLM2-135M-Instruct", "data.path": "demo-en"}


def read_spec(path: Path) -> tuple[RunSpec | None, tuple[Problem, ...]]:
    """The spec of a YAML or JSON file, or every problem of it. Raises `NotFound` where there is no such file."""
    try:
        value = read_value(path)
    except Refused as error:
        return None, error.problems
    return parse_spec(value)


def read_value(path: Path) -> dict[str, Any]:
    """The mapping in a YAML or JSON file.

    Raises `NotFound` where there is no such file, `UsageError` where it cannot be read, and `Refused` (codes
    `not-json`, `duplicate-key`, `wrong-type`) where it holds no mapping.
    """
    found = reachable(str(path))
    if found is None or not found.is_file():
        raise NotFound("error.spec-not-found", path=str(path))
    size = found.stat().st_size
    if size > SIZE_LIMIT:
        raise Refused([Problem(code="not-json", says="problem.not-json.too-large", params={"size": size})])
    try:
        value = _load(found.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise UsageError("error.unreadable", path=str(path), why=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise Refused([Problem(code="not-json", says="problem.not-json.encoding")]) from error
    except _DuplicateKey as error:
        params: dict[str, Scalar] = {"key": error.key[:80], "line": error.line}
        raise Refused([Problem(code="duplicate-key", field=error.key[:80], params=params)]) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else None
        says = "problem.not-json.line" if line is not None else None
        raise Refused([Problem(code="not-json", says=says, params={"line": line})]) from error
    if not isinstance(value, dict):
        raise Refused([Problem(code="wrong-type", says="problem.wrong-type.spec", params={"found": json_kind(value)})])
    return value


def with_sets(value: Mapping[str, Any], sets: Sequence[str]) -> dict[str, Any]:
    """The mapping with `key=value` texts over it; values are YAML scalars (`zero.stage=3`).

    An unknown key is taken over, so that `parse_spec` names it. Raises `UsageError` where a text has no `=`, an empty
    key, a value that is no YAML, or a key below something that is no section.
    """
    result = copy.deepcopy(dict(value))
    for text in sets:
        key, sign, written = text.partition("=")
        path = [part.strip() for part in key.split(".")]
        if not sign or not all(path):
            raise UsageError("error.bad-set", given=text)
        at = result
        for part in path[:-1]:
            inner = at.setdefault(part, {})
            if not isinstance(inner, dict):
                raise UsageError("error.bad-set", given=text)
            at = inner
        at[path[-1]] = _set_value(".".join(path), written, text)
    return result


def parse_spec(value: Mapping[str, Any]) -> tuple[RunSpec | None, tuple[Problem, ...]]:
    """The spec of a mapping, or None and every problem of it with its dotted field."""
    plain = {
        str(key): {str(k): v for k, v in inner.items()} if isinstance(inner, Mapping) else inner
        for key, inner in value.items()
    }
    problems = [*_conflicts(plain), *_switches(plain)]
    known = {problem.field for problem in problems}
    try:
        spec = RunSpec.model_validate(plain)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_context=True):
            problem = _problem([str(part) for part in detail["loc"]], detail["type"], detail)
            if problem.field not in known:
                known.add(problem.field)
                problems.append(problem)
        return None, tuple(problems)
    return (None if problems else spec), tuple(problems)


def spec_yaml(spec: RunSpec) -> str:
    """The spec as it is written into a run's folder: YAML that reads back to the same spec."""
    return yaml.safe_dump(spec.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def commented_example(language: Language = "en") -> str:
    """A whole spec with its defaults; above each field what it is."""
    lines: list[str] = []
    section = ""
    for key, facts in _FIELDS.items():
        head, _, name = key.rpartition(".")
        if head != section:
            lines += ["", f"{head}:"]
            section = head
        indent = "  " if head else ""
        default = _EXAMPLES[key] if facts.default is ... else facts.default
        written = yaml.safe_dump({name or key: list(default) if isinstance(default, tuple) else default})
        lines.append(f"{indent}# {say(f'field.{key}.hint', language)}{_bounds_note(facts)}")
        lines.append(f"{indent}{written.strip()}")
    return "\n".join(lines).lstrip("\n") + "\n"


class _DuplicateKey(Exception):
    def __init__(self, key: str, line: int) -> None:
        self.key = key
        self.line = line
        super().__init__(f"{key} twice, line {line}")


class _Loader(yaml.SafeLoader):
    """YAML without the silence about a key that is given twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key.value, str):
                continue
            if key.value in seen:
                raise _DuplicateKey(key.value, key.start_mark.line + 1)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _load(text: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text, object_pairs_hook=_unique)
        except json.JSONDecodeError:
            return yaml.load(text, _Loader)  # YAML may begin so too; its message names the line
    return yaml.load(text, _Loader)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _DuplicateKey(key, 0)
        found[key] = value
    return found


def _set_value(key: str, written: str, text: str) -> Any:
    facts = _FIELDS.get(key)
    above = _FIELDS.get(key.rpartition(".")[0])
    if (facts is not None and facts.kind == "text") or (above is not None and above.kind == "mapping"):
        return written
    try:
        return yaml.load(written, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError, _DuplicateKey) as error:
        raise UsageError("error.bad-set", given=text) from error


def _conflicts(value: Mapping[str, Any]) -> list[Problem]:
    """Both precisions asked at once, in any of the ways in which people write it."""
    train = value.get("train")
    if not isinstance(train, Mapping):
        return []
    asked = train.get("precision")
    # texts alone: with aliases a few lines of YAML can hold more than a memory
    listed = asked if isinstance(asked, list) else []
    words = {word.strip().lower() for word in listed if isinstance(word, str)}
    if isinstance(asked, str):
        words = {word.strip().lower() for word in asked.replace("+", ",").split(",")}
    words |= {name for name in ("bf16", "fp16") if train.get(name) is True}
    if {"bf16", "fp16"} <= words:
        return [Problem(code="precision-conflict", field="train.precision", set={"train.precision": "auto"})]
    return []


def _switches(value: Mapping[str, Any]) -> list[Problem]:
    """`true` where a number is wanted: Python would take it for 1."""
    found: list[Problem] = []
    for key, facts in _FIELDS.items():
        head, _, name = key.rpartition(".")
        section = value.get(head) if head else value
        if facts.kind in ("integer", "number") and isinstance(section, Mapping) and isinstance(section.get(name), bool):
            found.append(_wrong_type(key, section[name]))
        if facts.kind == "parts" and isinstance(section, Mapping):
            found += _switches_within(facts, section.get(name))
    return found


def _switches_within(facts: FieldFacts, parts: object) -> list[Problem]:
    """The same in each of several parts."""
    found: list[Problem] = []
    for at, part in enumerate(parts if isinstance(parts, list) else []):
        for inner in facts.inner:
            value = part.get(inner.key.rpartition(".")[2]) if isinstance(part, Mapping) else None
            if inner.kind in ("integer", "number") and isinstance(value, bool):
                found.append(_within(facts, [at, inner.key.rpartition(".")[2]], "bool_type", value))
    return found


def _problem(path: list[str], kind: str, detail: Any) -> Problem:
    """One of pydantic's errors as a problem."""
    key = ".".join(path[:2]) if path[0] in _SECTIONS else path[0]
    given = detail.get("input")
    facts = _FIELDS.get(key)
    if facts is not None and facts.kind == "parts":
        return _within(facts, [*path[2:]], kind, given)
    if kind == "extra_forbidden":
        return _unknown(key)
    if kind == "missing":
        return Problem(
            code=_MISSING[path[0]], field=key if "." in key else f"{key}.path", says=f"problem.{_MISSING[path[0]]}.none"
        )
    if facts is not None and _is_out_of_range(kind, given):
        return _out_of_range(facts, given)
    if key in _SECTIONS:
        params: dict[str, Scalar] = {
            "key": key,
            "found": json_kind(given),
            "example": f"{key}.path" if key in _MISSING else key,
        }
        return Problem(code="wrong-type", field=key, says="problem.wrong-type.section", params=params)
    return _wrong_type(key, given)


def _within(facts: FieldFacts, path: Sequence[str | int], kind: str, given: object) -> Problem:
    """What is wrong with one of several parts, whose field in the form is that of all; parts are numbered from 1."""
    if len(path) == 0:
        says, code = ("problem.value-range.parts", "value-range") if kind == "too_long" else (None, "wrong-type")
        params: dict[str, Scalar] = {"key": facts.key, "found": json_kind(given), "most": MOST_MIXED}
        return Problem(code=code, field=facts.key, says=says or "problem.wrong-type.parts", params=params)
    number = f"{facts.key}[{int(path[0]) + 1}]"
    if len(path) == 1:
        params = {"key": number, "found": json_kind(given), "value": shown(given)}
        return Problem(code="wrong-type", field=facts.key, says="problem.wrong-type.part", params=params)
    inner = _INNER.get(f"{facts.key}.{path[1]}")
    if inner is None:
        near = ", ".join(one.key.rpartition(".")[2] for one in facts.inner)
        says, params = "problem.unknown-key.part", {"key": f"{number}.{str(path[1])[:80]}", "names": near}
        return Problem(code="unknown-key", field=facts.key, says=says, params=params)
    if kind == "missing":
        return Problem(code="data-missing", field=facts.key, says="problem.data-missing.part", params={"key": number})
    found = _judged(inner, kind, given)
    key = f"{number}.{path[1]}"
    return found.model_copy(update={"field": facts.key, "params": {**found.params, "key": key}})


def _judged(facts: FieldFacts, kind: str, given: object) -> Problem:
    """A value that is none of the field's."""
    return _out_of_range(facts, given) if _is_out_of_range(kind, given) else _wrong_type(facts.key, given)


def _is_out_of_range(kind: str, given: object) -> bool:
    if kind in ("literal_error", "string_too_short", "string_too_long") or kind.startswith(("greater_", "less_")):
        return True
    return kind in ("finite_number", "int_parsing_size") or (kind == "int_from_float" and _huge(given))


def _huge(given: object) -> bool:
    return isinstance(given, float) and abs(given) >= 2**53


def _unknown(key: str) -> Problem:
    # the right name in the wrong section, else a word of it with its letters in another order, else the nearest name
    leaf = key.rpartition(".")[2]
    near = [name for name in _FIELDS if name.rpartition(".")[2] == leaf]
    near = near or [name for name in _FIELDS if sorted(leaf) in map(sorted, name.rpartition(".")[2].split("_"))]
    near = near or difflib.get_close_matches(key, [*_FIELDS, *_SECTIONS], n=1, cutoff=0.6)
    if near:
        return Problem(
            code="unknown-key",
            field=key[:80],
            says="problem.unknown-key.nearest",
            params={"key": key[:80], "nearest": near[0]},
        )
    return Problem(code="unknown-key", field=key[:80], params={"key": key[:80]})


def _out_of_range(facts: FieldFacts, given: object) -> Problem:
    key = facts.key
    params: dict[str, Scalar] = {"key": key, "value": shown(given)}
    if facts.choices:
        params["choices"] = ", ".join(facts.choices)
        return Problem(code="value-range", field=key, says="problem.value-range.choice", params=params)
    if facts.kind == "text":
        says = "problem.value-range.empty" if given == "" else "problem.value-range.long"
        return Problem(code="value-range", field=key, says=says, params=params)
    params["bounds"] = bounds(facts)
    return Problem(code="value-range", field=key, params=params)


def _wrong_type(key: str, given: object) -> Problem:
    facts = _FIELDS.get(key) or _INNER.get(key)
    kind = facts.kind if facts is not None else "text"
    if kind == "text" and isinstance(given, str):
        text = given[:60].encode("utf-8", "backslashreplace").decode()
        return Problem(
            code="value-range", field=key, says="problem.value-range.encoding", params={"key": key, "value": text}
        )
    params: dict[str, Scalar] = {"key": key, "found": json_kind(given), "value": shown(given)}
    return Problem(code="wrong-type", field=key, says=f"problem.wrong-type.{kind}", params=params)


def bounds(facts: FieldFacts) -> str:
    """The bounds of a number in signs that need no translation: `≥ 1, ≤ 1024`."""
    signs = (("≥", facts.ge), (">", facts.gt), ("≤", facts.le), ("<", facts.lt))
    return ", ".join(f"{sign} {limit:.12g}" for sign, limit in signs if limit is not None)


def _bounds_note(facts: FieldFacts) -> str:
    """What may stand there, for a comment."""
    notes = facts.choices or tuple(note for note in (bounds(facts), facts.unit) if note)
    return f" ({(' | ' if facts.choices else ', ').join(notes)})" if notes else ""
