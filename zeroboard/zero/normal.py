"""A DeepSpeed file as DeepSpeed takes it: 5e8 as a whole number, old names under their new ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zeroboard.contract.schema import Schema
from zeroboard.zero.keys import new_name


def normalised(value: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """The same file in its plainest form, in its own order; what is wrong in it stays as it is."""
    return _block(value, schema, "")


def _block(value: Mapping[str, Any], schema: Schema, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, given in value.items():
        path = prefix + key
        facts = schema.keys.get(path)
        if facts is not None and facts.deprecated:
            new = new_name(path, facts, schema)
            name = new.rpartition(".")[2] if new is not None else key
            if new is None or name in value:
                found[key] = given
            elif key in ("cpu_offload", "cpu_offload_param"):
                if given is True:
                    found[name] = {"device": "cpu"}
            else:
                found[name] = given
        elif isinstance(given, Mapping):
            found[key] = _block(given, schema, f"{path}.")
        elif isinstance(given, float) and given.is_integer() and _whole(path, schema):
            found[key] = int(given)
        else:
            found[key] = given
    return found


def _whole(path: str, schema: Schema) -> bool:
    """Whether DeepSpeed wants a whole number there."""
    facts = schema.keys.get(path)
    return (facts is not None and facts.kind == "integer") or path.endswith(("_num_steps", "_step_size"))
