"""Tools and calls of them, as the three worlds write them: OpenAI's `tool_calls`, ShareGPT's `function_call` turns with
a JSON text, and content parts of the type `tool_call`. Arguments come as an object or as its JSON text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """The assistant calls a tool."""

    name: str
    arguments: Mapping[str, Any]


def read_calls(value: object) -> tuple[Call, ...] | None:
    """The calls of a field, or of one turn's text; None where it is malformed."""
    value = _decoded(value)
    parts = value if isinstance(value, list) else [value]
    found = [_call(part) for part in parts]
    calls = tuple(call for call in found if call is not None)
    return calls if calls and len(calls) == len(found) else None


def _call(value: object) -> Call | None:
    value = _decoded(value)
    if not isinstance(value, Mapping):
        return None
    inner = value.get("function", value)
    if not isinstance(inner, Mapping):
        return None
    name = inner.get("name")
    arguments = inner.get("arguments", inner.get("parameters"))
    if isinstance(arguments, str):
        arguments = _decoded(arguments) if arguments.strip() else {}
    arguments = {} if arguments is None else arguments
    return Call(name, arguments) if isinstance(name, str) and name and isinstance(arguments, Mapping) else None


def read_tools(value: object) -> tuple[Mapping[str, Any], ...] | None:
    """The tools that a row offers, none where the field is blank; None where they are malformed."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return ()
    value = _decoded(value)
    tools = value if isinstance(value, list) else [value]
    decoded = [_decoded(tool) for tool in tools]
    found = tuple(tool for tool in decoded if isinstance(tool, Mapping))
    return found if len(found) == len(decoded) else None


def _decoded(value: object) -> Any:
    """What a JSON text says; a value that is no text, or no JSON, as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
