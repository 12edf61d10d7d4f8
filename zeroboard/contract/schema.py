"""DeepSpeed's own schema of its file, as the installed version tells it; what `zero/check` judges a file against."""

from __future__ import annotations

from typing import Literal

from zeroboard.contract.base import Record

SCHEMA_LAYOUT = 1
"""Raised whenever what is asked of DeepSpeed changes; part of the cached answer's name."""

KeyKind = Literal["switch", "integer", "number", "text", "list", "object", "any"]


class SchemaKey(Record):
    """What DeepSpeed says about one key of its file."""

    kind: KeyKind
    optional: bool = False
    """May be null."""
    strict: bool = False
    """An object that is refused where it holds an unknown key; others let unknown keys pass without a word."""
    open: bool = False
    """An object whose keys DeepSpeed does not tell; nothing in it is judged."""
    choices: tuple[str, ...] = ()
    """Words, or numbers as texts."""
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    auto: bool = False
    """`auto` is DeepSpeed's own default here."""
    deprecated: bool = False
    replaced_by: str | None = None
    """A deprecated key's new name, beside it."""


class Schema(Record):
    """All keys that the installed DeepSpeed reads."""

    version: str
    """Of DeepSpeed."""
    keys: dict[str, SchemaKey]
    """Dotted path → what may stand there."""
    removed: dict[str, str] = {}
    """Dotted path of a key that DeepSpeed refuses since its feature is gone → DeepSpeed's own words."""
    optimizers: tuple[str, ...] = ()
    """Types of `optimizer` that DeepSpeed makes itself, in lower case."""
    torch_optimizers: tuple[str, ...] = ()
    """Further types, which it takes from torch."""
    host_optimizers: tuple[str, ...] = ()
    """Types, in lower case, that can compute on the host, where offload puts them."""
    tested_optimizers: tuple[str, ...] = ()
    """Types, in lower case, that ZeRO takes without `zero_allow_untested_optimizer`."""
    optimizer_params: dict[str, tuple[str, ...]] = {}
    """Type of `optimizer`, in lower case → the names of its parameters, where they are known."""
    schedulers: dict[str, tuple[str, ...]] = {}
    """Type of `scheduler` → the names of its parameters."""
    scheduler_needs: dict[str, tuple[str, ...]] = {}
    """Type of `scheduler` → parameters without a default."""
