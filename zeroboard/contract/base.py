"""The base of everything that crosses a process or the disk: frozen, strict about names, no NaN."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema

MOST = 10**40
"""No count and no size reaches it, not even an absurd one. A longer number is damage that nothing can reckon with."""


def _bound(schema: object) -> None:
    """Give every whole number in a schema its bounds; those of models within have theirs already."""
    if isinstance(schema, list | tuple):
        for part in schema:
            _bound(part)
    elif isinstance(schema, dict):
        if schema.get("type") == "int":
            schema.setdefault("lt", MOST)
            schema.setdefault("gt", -MOST)
        for key, part in schema.items():
            if key not in ("metadata", "cls"):
                _bound(part)


class Part(BaseModel):
    """A frozen value; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class Record(BaseModel):
    """A frozen value that was written by ZeroBoard itself; keys of a newer version are let pass.

    A whole number beyond `MOST` is an error.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, use_attribute_docstrings=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        _bound(schema)
        return schema
