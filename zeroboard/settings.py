"""What the environment says: the one place that reads ZEROBOARD_… variables."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from zeroboard.errors import UsageError
from zeroboard.paths import Paths

AUTH = "ZEROBOARD_AUTH"
"""Holds the page's password, which is no business of a run or of a model's own code: children do not get it."""
SECRETS = (AUTH, "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "MODELSCOPE_API_TOKEN")
"""No business of any short-lived child: what needs a token gets it through its standard input."""


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
    """The settings from an environment; `cache` (the command line's `--cache`) goes first.

    Raises `UsageError` where the cache folder is something else than a folder, or cannot be one.
    """
    named = cache or environ.get("ZEROBOARD_CACHE") or "cache"
    try:
        named.encode("utf-8")
        if "\0" in named:
            raise ValueError("null character")
        folder = Path(named).expanduser().absolute()
        there = next(place for place in (folder, *folder.parents) if place.exists())
        if not there.is_dir():
            raise NotADirectoryError(os.strerror(errno.ENOTDIR))
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError("error.cache-unusable", path=ascii(named)[:200], why=str(error)[:200]) from error
    return Settings(cache=folder, auth=environ.get(AUTH) or None)
