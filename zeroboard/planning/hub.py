"""What is named by a hub, and where it lies once it came: `hub:owner/name@revision`, or `ms:…` for ModelScope.

Of a data set a file, a folder or a pattern may follow: `hub:owner/name@revision/data/train.parquet`. Only the prefix
makes a hub's name of a text, so a wrong path never becomes one. Nothing here ever asks a hub.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from zeroboard.contract.hub import MANIFEST, HubKind, HubManifest, HubSite
from zeroboard.contract.problems import Problem
from zeroboard.files import read_whole, sha256_text
from zeroboard.paths import Paths

PREFIXES: dict[str, HubSite] = {"hub:": "hub", "ms:": "ms"}
COMMIT = re.compile(r"[0-9a-f]{40}")

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
_MODEL = re.compile(rf"({_PART}/{_PART})(?:@([A-Za-z0-9][A-Za-z0-9_./-]{{0,120}}))?")
_DATA = re.compile(
    rf"({_PART}/{_PART})(?:@(refs/[a-z]+/[A-Za-z0-9_.-]+|[A-Za-z0-9][A-Za-z0-9_.-]{{0,120}}))?"
    r"(?:/([^\x00-\x1f\x7f\\]{1,400}))?"
)
"""A revision of a data set has no slash, but for the hub's own `refs/convert/parquet` and `refs/pr/1`: what follows a
slash is a file."""
_FIELDS = {"model": ("model-missing", "model.path"), "dataset": ("data-missing", "data.path")}
_OWNER_NAME = re.compile(rf"{_PART}/{_PART}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubRef:
    """A repository of a hub, at a branch, tag or commit."""

    site: HubSite = "hub"
    kind: HubKind = "model"
    repository: str
    revision: str | None = None
    file: str = ""
    """Of a data set: a file, a folder or a pattern in it; empty: its training split."""

    def __str__(self) -> str:
        revision, file = f"@{self.revision}" if self.revision else "", f"/{self.file}" if self.file else ""
        return f"{self.site}:{self.repository}{revision}{file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFolder:
    """What came: a model, or files of a data set."""

    folder: Path
    manifest: HubManifest

    @property
    def data(self) -> Path:
        """Of a data set: the one file that came, or the folder of several."""
        files = self.manifest.files
        return self.folder / files[0].name if len(files) == 1 else self.folder


def names_hub(text: str) -> bool:
    """Whether a text means a hub, be the rest right or wrong."""
    return text.startswith(tuple(PREFIXES))


def parse(text: str, kind: HubKind = "model") -> HubRef | None:
    """The repository that a text names; None where it does not mean a hub, or names nothing that a hub can have."""
    pattern = _MODEL if kind == "model" else _DATA
    prefix = next((prefix for prefix in PREFIXES if text.startswith(prefix)), None)
    found = pattern.fullmatch(text.removeprefix(prefix)) if prefix is not None else None
    if prefix is None or found is None or "--" in found[1] or any(".." in part for part in found.groups("")[:2]):
        return None
    file = (found[3] or "").rstrip("/") if kind == "dataset" else ""
    if any(part.startswith(".") or not part.strip() for part in file.split("/") if file):
        return None
    return HubRef(site=PREFIXES[prefix], kind=kind, repository=found[1], revision=found[2], file=file)


def looks_like_hub(text: str) -> bool:
    """Whether a text is written as a hub's repositories are, without the prefix: perhaps one was meant."""
    return _OWNER_NAME.fullmatch(text) is not None


def root(paths: Paths, kind: HubKind) -> Path:
    """Where everything of a kind lies."""
    return paths.hub if kind == "model" else paths.hub_data


def folder_name(repository: str, commit: str, file: str = "", site: HubSite = "hub") -> str:
    """No repository has `--` in its name, so this can be read back; a choice of files has a folder of its own."""
    chosen = f"+{sha256_text(file)[:12]}" if file else ""
    return f"{'' if site == 'hub' else f'{site}+'}{repository.replace('/', '--')}@{commit}{chosen}"


def read_manifest(folder: Path) -> HubManifest | None:
    """The manifest of a folder; None where there is none that can be read: then the folder is not whole."""
    try:
        return HubManifest.model_validate_json(read_whole(folder / MANIFEST))
    except (OSError, ValidationError):
        return None


def came(paths: Paths, kind: HubKind = "model") -> tuple[HubFolder, ...]:
    """Everything of a kind that came from a hub, by name."""
    here = root(paths, kind)
    folders = sorted(here.glob("*--*@*")) if here.is_dir() else []
    found = ((folder.absolute(), read_manifest(folder)) for folder in folders if not folder.name.startswith("."))
    return tuple(HubFolder(folder=folder, manifest=manifest) for folder, manifest in found if manifest is not None)


def find(ref: HubRef, paths: Paths) -> HubFolder | None:
    """What came for a name: of that commit, or where that branch led when it was last fetched."""
    asked = (ref.site, ref.repository, ref.file)
    there = ((one, one.manifest) for one in came(paths, ref.kind))
    mine = [one for one, told in there if (told.site, told.repository, told.file) == asked]
    if ref.revision is not None and COMMIT.fullmatch(ref.revision):
        of_commit = (one for one in mine if ref.revision in (one.manifest.commit, *one.manifest.revisions))
        return next(of_commit, None)
    revision = ref.revision or ""
    mine = [one for one in mine if revision in one.manifest.revisions]
    return max(mine, key=lambda one: one.manifest.revisions[revision], default=None)


def names(paths: Paths, kind: HubKind = "model") -> list[str]:
    """A name for each that came: as it was asked for last, else by its commit."""
    found: list[str] = []
    for one in came(paths, kind):
        manifest, asked = one.manifest, one.manifest.revisions
        last = max(asked, key=lambda name: asked[name], default=manifest.commit)
        ref = HubRef(
            site=manifest.site, kind=kind, repository=manifest.repository, revision=last or None, file=manifest.file
        )
        now = find(ref, paths)
        here = now is not None and now.folder == one.folder
        found.append(str(ref if here else replace(ref, revision=manifest.commit)))
    return found


def missing(text: str, kind: HubKind = "model") -> Problem:
    """Why a text that means a hub leads to nothing here."""
    code, field = _FIELDS[kind]
    variant = "hub-name" if parse(text, kind) is None else "not-fetched"
    return Problem(code=code, field=field, says=f"problem.{code}.{variant}", params={"path": text[:200]})


def without_code(text: str, paths: Paths) -> Problem | None:
    """A model that came without its Python files, because nobody had agreed to run them then."""
    ref = parse(text)
    model = find(ref, paths) if ref is not None else None
    if model is None or model.manifest.code:
        return None
    return Problem(
        code="model-missing", field="model.path", says="problem.model-missing.hub-code", params={"path": text[:200]}
    )
