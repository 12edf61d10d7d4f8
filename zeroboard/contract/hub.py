"""What is known of a model or data set that came from a hub: asked for, told while it comes, and kept beside it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from zeroboard.contract.base import Record
from zeroboard.contract.problems import Problem

MANIFEST = "zeroboard-hub.json"
"""Name of the manifest in the folder of what came; written last."""

HubKind = Literal["model", "dataset"]
HubSite = Literal["hub", "ms"]
"""Hugging Face's hub, and ModelScope: the prefix of a name."""


class HubFetch(Record):
    """What the process that downloads reads, one line of JSON on standard input: the only place of the token."""

    site: HubSite = "hub"
    kind: HubKind = "model"
    repository: str
    """`owner/name`."""
    revision: str | None
    """Branch, tag or commit; None: the hub's default branch."""
    file: str = ""
    """Of a data set: one file, a folder or a pattern in it; empty: its training split."""
    root: str
    """Folder of all models, or data sets, that came from a hub."""
    lock: str
    """Folder of lock files."""
    free: int
    """Bytes that may be written; measured by whoever asks."""
    code: bool
    """Whether Python files of the repository are wanted."""
    token: str | None = Field(repr=False)


class HubTold(Record):
    """What that process tells while it works, JSON, replaced whole."""

    partial: str | None = None
    """Folder in which the files grow."""
    total: int | None = None
    """Bytes of all files together."""
    folder: str | None = None
    """Where it lies whole, once it does."""
    problem: Problem | None = None


class HubFile(Record):
    """One file that came."""

    name: str
    size: int
    """Bytes."""
    sha256: str


class HubManifest(Record):
    """What a folder holds and where it came from."""

    site: HubSite = "hub"
    kind: HubKind = "model"
    repository: str
    commit: str
    """40 hexadecimal digits; of ModelScope, which names no commit, they are those of its list of files and hashes."""
    revisions: dict[str, float]
    """Branch or tag that was asked for ("" for the default) → when it led here, in seconds since the epoch."""
    code: bool
    """Whether Python files came too."""
    file: str = ""
    """Of a data set: what of it was asked for; empty: its training split."""
    files: tuple[HubFile, ...]
