"""What is to be exported: a run's result, one of its checkpoints, or a folder from anywhere; and all that is known of
it, for the model card."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from zeroboard.catalogue import MODELS
from zeroboard.checkpoints.base import find_base
from zeroboard.checkpoints.folder import list_folder
from zeroboard.checkpoints.inspect import ADAPTER_CONFIG, source_kind
from zeroboard.contract.reports import Kind
from zeroboard.contract.spec import RunSpec
from zeroboard.errors import NotFound
from zeroboard.paths import RUN_ID, Paths, confine, reachable
from zeroboard.runs import registry
from zeroboard.services import diagnose, results

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""`OWNER/NAME`, as hubs name models."""

_CACHED = re.compile(r"models--([\w.-]+?)--([\w.-]+)")
"""A folder in the cache of the hub's own library."""

FRONT = 65_536
"""Bytes of a README in which its front matter is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A folder that a person means."""

    path: Path
    kind: Kind
    run_id: str | None
    base: Path | None


def find(paths: Paths, word: str, base: str | None = None) -> Found:
    """The folder behind a word: a run (`last`, an id, its beginning), `RUN/checkpoint-N`, or a path.

    A path inside a run's folder belongs to that run. Raises `NotFound`.
    """
    run_word, _, rest = word.partition("/")
    if reachable(word) is None and RUN_ID.fullmatch(run_word) and results.CHECKPOINT.fullmatch(rest):
        run = registry.find(paths, run_word)
        place = results.Place(path=run.checkpoints / rest, base=results.base_of(paths, run.id))
        if not place.path.is_dir():
            raise NotFound("error.no-result", run=word)
    else:
        place = results.place(paths, word)
    run_id = _run_of(paths, place.path)
    known = place.base or (results.base_of(paths, run_id) if run_id else None)
    if base is not None:
        known = results.there(base)
    return Found(path=place.path, kind=source_kind(list_folder(place.path)), run_id=run_id, base=known)


def _run_of(paths: Paths, path: Path) -> str | None:
    """The run whose folder a path lies in."""
    resolved, runs = path.resolve(), paths.runs.resolve()
    if not resolved.is_relative_to(runs) or resolved == runs:
        return None
    run_id = resolved.relative_to(runs).parts[0]
    return run_id if RUN_ID.fullmatch(run_id) and confine(resolved, [runs]) else None


def base_folder(path: Path, base: Path | None) -> Path | None:
    """The base of what lies at `path`: the one that is known, else the one that an adapter's config names."""
    named = (list_folder(path).json(ADAPTER_CONFIG).value or {}).get("base_model_name_or_path")
    found = find_base(named if isinstance(named, str) else None, base)
    return found if found is not None and found.is_dir() else None


def spec_of(paths: Paths, run_id: str | None) -> RunSpec | None:
    """What was asked of the run; None for a folder from elsewhere, or where it cannot be read."""
    return diagnose.asked(paths.run(run_id)) if run_id is not None else None


def front_matter(folder: Path | None) -> Mapping[str, Any]:
    """The values between the first two `---` of a folder's README; empty where there are none."""
    readme = folder / "README.md" if folder is not None else None
    if readme is None or not readme.is_file():
        return {}
    with readme.open(encoding="utf-8", errors="replace") as stream:
        head = stream.read(FRONT)
    found = re.match(r"---\r?\n(.*?)\n---", head, re.DOTALL)
    try:
        value = yaml.safe_load(found[1]) if found else None
    except yaml.YAMLError:
        return {}
    return value if isinstance(value, dict) else {}


def licence_of(paths: Paths, base: Path | None) -> dict[str, str]:
    """The licence of a base as its own card tells it, in the words of a card's front matter; empty where unknown."""
    for entry in MODELS:
        if base is not None and base.resolve() == entry.folder(paths).resolve():
            return {"license": entry.licence}
    front = front_matter(base)
    if not isinstance(front.get("license"), str):
        return {}
    names = ("license", "license_name", "license_link")
    return {name: front[name] for name in names if isinstance(front.get(name), str)}


def hub_name(paths: Paths, base: Path | None) -> str | None:
    """The name of a base on the hub, where its folder tells it; never a path of this machine."""
    if base is None:
        return None
    for entry in MODELS:
        if base.resolve() == entry.folder(paths).resolve():
            return entry.hub
    for part in reversed(base.absolute().parts):
        if cached := _CACHED.fullmatch(part):
            return f"{cached[1]}/{cached[2]}"
    named = (list_folder(base).json("config.json").value or {}).get("_name_or_path")
    if isinstance(named, str) and HUB_NAME.fullmatch(named) and not Path(named).exists():
        return named
    return None
