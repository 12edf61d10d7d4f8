"""Models that are named by a hub: `hub:owner/name` or `hub:owner/name@revision`, and where they lie once they came.

Only the prefix makes a hub's name of a text, so a wrong path never becomes one. Nothing here ever asks a hub.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from zeroboard.contract.hub import MANIFEST, HubManifest
from zeroboard.contract.problems import Problem
from zeroboard.files import read_whole
from zeroboard.paths import Paths

PREFIX = "hub:"
COMMIT = re.compile(r"[0-9a-f]{40}")

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
_REF = re.compile(rf"({_PART}/{_PART})(?:@([A-Za-z0-9][A-Za-z0-9_./-]{{0,120}}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubRef:
    """A repository of a hub, at a branch, tag or commit."""

    repository: str
    revision: str | None = None

    def __str__(self) -> str:
        return PREFIX + self.repository + (f"@{self.revision}" if self.revision else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubModel:
    """A model that came."""

    folder: Path
    manifest: HubManifest


def names_hub(text: str) -> bool:
    """Whether a text means a hub, be the rest right or wrong."""
    return text.startswith(PREFIX)


def parse(text: str) -> HubRef | None:
    """The repository that a text names; None where it does not mean a hub, or names nothing that a hub can have."""
    found = _REF.fullmatch(text.removeprefix(PREFIX)) if names_hub(text) else None
    if found is None or "--" in found[1] or ".." in text:
        return None
    return HubRef(repository=found[1], revision=found[2])


def folder_name(repository: str, commit: str) -> str:
    """No repository has `--` in its name, so this can be read back."""
    return f"{repository.replace('/', '--')}@{commit}"


def read_manifest(folder: Path) -> HubManifest | None:
    """The manifest of a folder; None where there is none that can be read: then the folder is not whole."""
    try:
        return HubManifest.model_validate_json(read_whole(folder / MANIFEST))
    except (OSError, ValidationError):
        return None


def came(paths: Paths) -> tuple[HubModel, ...]:
    """Every model that came from a hub, by name."""
    folders = sorted(paths.hub.glob("*--*@*")) if paths.hub.is_dir() else []
    found = ((folder.absolute(), read_manifest(folder)) for folder in folders if not folder.name.startswith("."))
    return tuple(HubModel(folder=folder, manifest=manifest) for folder, manifest in found if manifest is not None)


def find(ref: HubRef, paths: Paths) -> HubModel | None:
    """The model that came for a name: of that commit, or where that branch led when it was last fetched."""
    mine = [model for model in came(paths) if model.manifest.repository == ref.repository]
    if ref.revision is not None and COMMIT.fullmatch(ref.revision):
        return next((model for model in mine if model.manifest.commit == ref.revision), None)
    asked = ref.revision or ""
    mine = [model for model in mine if asked in model.manifest.revisions]
    return max(mine, key=lambda model: model.manifest.revisions[asked], default=None)


def names(paths: Paths) -> list[str]:
    """A name for each model that came: as it was asked for last, else by its commit."""
    found: list[str] = []
    for model in came(paths):
        asked = model.manifest.revisions
        last = max(asked, key=lambda name: asked[name], default=model.manifest.commit)
        ref = HubRef(repository=model.manifest.repository, revision=last or None)
        now = find(ref, paths)
        here = now is not None and now.folder == model.folder
        found.append(str(ref if here else HubRef(repository=ref.repository, revision=model.manifest.commit)))
    return found


def missing(text: str) -> Problem:
    """Why a text that means a hub leads to no folder here."""
    says = "problem.model-missing.hub-name" if parse(text) is None else "problem.model-missing.not-fetched"
    return Problem(code="model-missing", field="model.path", says=says, params={"path": text[:200]})


def without_code(text: str, paths: Paths) -> Problem | None:
    """A model that came without its Python files, because nobody had agreed to run them then."""
    ref = parse(text)
    model = find(ref, paths) if ref is not None else None
    if model is None or model.manifest.code:
        return None
    return Problem(
        code="model-missing", field="model.path", says="problem.model-missing.hub-code", params={"path": text[:200]}
    )
