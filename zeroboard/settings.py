"""What the environment says: the one place that reads ZEROBOARD_… variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from zeroboard.paths import Paths

AUTH = "ZEROBOARD_AUTH"
"""Holds the page's password, which is no business of a run or of a model's own code: children do not get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the program (not of a run)."""

    cache: Path
    """Where everything is written. `ZEROBOARD_CACHE`, else `cache` in the current folder."""
    auth: str | None = None
    """`USER:PASS` for the page. `ZEROBOARD_AUTH`; never written anywhere."""

    @property
    def paths(self) -> Paths:
        return Paths(self.cache)


def read_settings(environ: Mapping[str, str] = os.environ, cache: str | None = None) -> Settings:
    """The settings from an environment; `cache` (the command line's `--cache`) goes first."""
    folder = cache or environ.get("ZEROBOARD_CACHE") or "cache"
    return Settings(cache=Path(folder).expanduser().absolute(), auth=environ.get(AUTH) or None)
