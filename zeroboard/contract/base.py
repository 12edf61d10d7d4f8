"""The base of everything that crosses a process or the disk: frozen, strict about names, no NaN."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A frozen value; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class Record(BaseModel):
    """A frozen value that was written by ZeroBoard itself; keys of a newer version are let pass."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, use_attribute_docstrings=True)
