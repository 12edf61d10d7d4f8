"""The form, without a page: what stands in the widgets ⇄ the spec.

The widgets follow from the table of fields (`contract.spec.fields`). One field is shown as two widgets: `zero.offload`
is a switch, and what it moves is chosen under *advanced* (`auto` takes what the stage allows).
Covered: every value that a browser may send, also a forged one, becomes a spec or problems by field. Not covered:
whether the model, the data and the machine allow it; that is the plan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from zeroboard.contract.problems import Problem, Scalar
from zeroboard.contract.spec import MOST_MIXED, FieldFacts, Offload, RunSpec, fields
from zeroboard.files import sha256_text
from zeroboard.services import prepare

Card = Literal["model", "data", "method", "train", "zero"]
CARDS: tuple[Card, ...] = get_args(Card)
"""In the order of thought."""

OFFLOAD = "zero.offload"
OFFLOAD_WHAT = "zero.offload_what"
"""Widget beside the switch; no field of the spec."""
WHAT = ("auto", "optimizer", "all")

COLUMNS = "data.columns."
"""What the keys of the widgets begin with that say what a column means, one for each meaning."""

MIXED = "data.more."
"""What the keys of the widgets begin with that name further files: `data.more.0.path`, `.weight` and `.columns`."""

LORA_FIELDS = ("method.rank", "method.alpha", "method.dropout", "method.targets")
"""Mean nothing unless the method is LoRA."""

_WITH_ZERO = "devices"
"""The section of the spec that shares a card with `zero`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Widget:
    """One widget of the form."""

    key: str
    field: FieldFacts
    card: Card | None
    """None: the run's name, which stands by the buttons."""
    advanced: bool
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a form came to."""

    spec: RunSpec | None
    problems: tuple[Problem, ...]
    rest: RunSpec | None
    """The spec with the demo's values for those that were refused, so that what is wrong elsewhere is told as well."""


def widgets() -> tuple[Widget, ...]:
    """All widgets, in the order of the form; the order in which a handler gets their values."""
    found: list[Widget] = []
    for field in fields():
        card = card_of(field.key)
        if field.kind == "mapping":
            names = [f"{field.key}.{name}" for name in field.choices]
            found += [Widget(key=name, field=field, card=card, advanced=True, choices=()) for name in names]
            continue
        if field.kind == "parts":
            inner = [(n, one) for n in range(MOST_MIXED) for one in field.inner]
            keys = [(f"{field.key}.{n}.{one.key.rpartition('.')[2]}", one) for n, one in inner]
            found += [Widget(key=key, field=one, card=card, advanced=True, choices=()) for key, one in keys]
            continue
        found.append(Widget(key=field.key, field=field, card=card, advanced=field.advanced, choices=field.choices))
        if field.key == OFFLOAD:
            found.append(Widget(key=OFFLOAD_WHAT, field=field, card="zero", advanced=True, choices=WHAT))
    return tuple(found)


def card_of(field: str | None) -> Card | None:
    """The card that shows a field of the spec; None for the name, or for what no field is."""
    section = (field or "").split(".")[0]
    if section == _WITH_ZERO:
        return "zero"
    return next((card for card in CARDS if card == section), None)


def element_id(key: str) -> str:
    """The id in the page of a widget, `f-train-micro_batch`."""
    return "f-" + key.replace(".", "-")


def to_mapping(values: Mapping[str, Any]) -> dict[str, Any]:
    """The widgets' values, by key, as the nested mapping of a spec; nothing is judged here."""
    spec: dict[str, Any] = {}
    for field in fields():
        value = _plain(field, values.get(field.key))
        if field.kind == "mapping":
            chosen = {name: _plain(field, values.get(f"{field.key}.{name}")) for name in field.choices}
            value = {name: column for name, column in chosen.items() if column not in ("", None)}
        if field.kind == "parts":
            value = _parts(field, values)
        if field.key == OFFLOAD:
            value = offload(values.get(OFFLOAD), values.get(OFFLOAD_WHAT), values.get("zero.stage"))
        *sections, name = field.key.split(".")
        place = spec
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    return spec


def from_spec(spec: RunSpec) -> dict[str, Any]:
    """The widgets' values, by key, that show this spec; what is left open is an empty text."""
    whole = spec.model_dump(mode="json")
    values: dict[str, Any] = {}
    for field in fields():
        value: Any = whole
        for part in field.key.split("."):
            value = value[part]
        if field.kind == "mapping":
            values |= {f"{field.key}.{name}": value.get(name, "") for name in field.choices}
        elif field.kind == "parts":
            values |= _rows(field, value)
        else:
            values[field.key] = "" if value is None else value
    moved = spec.zero.offload
    values[OFFLOAD] = moved != "none"
    values[OFFLOAD_WHAT] = "auto" if moved in ("none", offload(True, "auto", spec.zero.stage)) else moved
    return values


def mixed_rows(values: Mapping[str, Any]) -> list[int]:
    """The rows that name a further file."""
    return [n for n in range(MOST_MIXED) if str(values.get(f"{MIXED}{n}.path") or "").strip()]


def _parts(field: FieldFacts, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The further files that are named, as a spec has them."""
    names = {one.key.rpartition(".")[2]: one for one in field.inner}
    found = []
    for n in mixed_rows(values):
        part = {name: _plain(one, values.get(f"{MIXED}{n}.{name}", one.default)) for name, one in names.items()}
        found.append(part | {"columns": read_columns(part["columns"], names["columns"].choices)})
    return found


def _rows(field: FieldFacts, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The same as widgets show it; those that are left over are empty."""
    found: dict[str, Any] = {}
    for n in range(MOST_MIXED):
        part: Mapping[str, Any] = parts[n] if n < len(parts) else {"path": "", "weight": 1.0, "columns": {}}
        columns = ", ".join(f"{ours}={theirs}" for ours, theirs in part["columns"].items())
        found |= {
            f"{MIXED}{n}.path": part["path"],
            f"{MIXED}{n}.weight": part["weight"],
            f"{MIXED}{n}.columns": columns,
        }
    return found


def read_columns(text: object, meanings: Sequence[str]) -> object:
    """`output=Antwort, instruction=Frage` as a mapping; what is nothing of the kind, or says one of them twice, stays
    what it is."""
    if text in (None, "", {}):
        return {}
    if not isinstance(text, str):
        return text
    ours = "|".join(meanings)
    pairs = [pair.partition("=") for pair in re.split(rf"[,，]\s*(?=(?:{ours})\s*=)", text)]
    found = {name.strip(): theirs.strip() for name, _, theirs in pairs}
    return found if len(found) == len(pairs) and all(found.values()) else text


def offload(switch: object, what: object, stage: object) -> Offload | Any:
    """The spec's word for the switch and its choice. Stage 3 shards parameters, so only it can move all."""
    if not isinstance(switch, bool):
        return switch
    if not switch:
        return "none"
    if what == "auto":
        return "all" if str(stage) == "3" else "optimizer"
    return what


def check(values: Mapping[str, Any]) -> Checked:
    """The spec of these values, or every problem at once, each with its field."""
    spec, problems = prepare.check_spec(to_mapping(values))
    rest = spec
    if spec is None:
        demo = from_spec(prepare.default_spec())
        bad = {problem.field for problem in problems}
        mended = {
            key: demo[key] if any(key == one or key.startswith(f"{one}.") for one in bad) else value
            for key, value in values.items()
        }
        if OFFLOAD in bad:
            mended[OFFLOAD_WHAT] = demo[OFFLOAD_WHAT]
        rest, _ = prepare.check_spec(to_mapping(mended))
    return Checked(spec=spec, problems=tuple(problems), rest=rest)


def mended(spec: RunSpec, fields_set: Mapping[str, Scalar]) -> tuple[RunSpec | None, tuple[Problem, ...]]:
    """The spec with some fields set (of a remedy, by their dotted keys), or what stands against that."""
    whole = spec.model_dump(mode="json")
    kinds = {field.key: field.kind for field in fields()}
    for key, value in fields_set.items():
        *sections, name = key.split(".")
        place = whole
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = [] if value is None and kinds.get(key) == "list" else value
    return prepare.check_spec(whole)


def stamp(spec: RunSpec) -> str:
    """What tells one form from another: has it changed since the preview?"""
    return sha256_text(spec.model_dump_json())


def kept(stored: object) -> dict[str, Any]:
    """The values that a browser kept for widgets that there are now; nothing of what else it may hold."""
    values = stored.get("values") if isinstance(stored, dict) else None
    if not isinstance(values, dict):
        return {}
    known = {widget.key for widget in widgets()}
    return {key: value for key, value in values.items() if key in known and _is_value(value)}


def _is_value(value: object) -> bool:
    """What a widget may hold; whether it is right is judged with everything else."""
    if isinstance(value, list):
        return all(isinstance(one, str) for one in value)
    return value is None or isinstance(value, str | int | float)


def _plain(field: FieldFacts, value: Any) -> Any:
    """What the browser sends, as YAML would have it: whole floats as integers, an empty optional as nothing."""
    if isinstance(value, str):
        value = value.strip()
    if field.optional and value in ("", None):
        return None
    if field.kind == "list":
        return [] if value is None else value
    if field.kind in ("integer", "number") and isinstance(value, str):
        return _number(value)
    if field.kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _number(text: str) -> Any:
    """A number typed as text; what is none stays text, to be refused with its field."""
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text
