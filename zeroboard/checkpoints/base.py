"""The base of an adapter: is it there, and what are its matrices. Check `base`.

Covered: a path that is gone (which is never looked up on a hub), a base whose files are damaged, one whose weights
cannot be read as bytes. Not covered: whether the base's values are those that the adapter was trained on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from zeroboard.checkpoints import architecture
from zeroboard.checkpoints.findings import Findings, printable
from zeroboard.checkpoints.folder import Folder, list_folder
from zeroboard.checkpoints.model import CONFIG, OUTPUT, embedding_rows, input_embedding, is_tied
from zeroboard.checkpoints.weights import Weights, model_files, read_files
from zeroboard.errors import NotFound


@dataclass(frozen=True, slots=True)
class Base:
    """What an adapter needs to know of its base."""

    folder: Folder
    modules: dict[str, tuple[int, int]]
    """Name of each module with a matrix → its shape."""
    names: Collection[str]
    """Names of all tensors."""
    rows: int | None
    """Of the input embedding."""
    layout_known: bool
    """Names on disk are those of the modules for certain; else they may differ."""
    weights: Weights

    @property
    def model_type(self) -> object:
        return (self.folder.json(CONFIG).value or {}).get("model_type")

    @property
    def name(self) -> str:
        return printable(str(self.folder.path))


def find_base(named: str | None, given: Path | None) -> Path | None:
    """The base's folder: the one that the caller gives, else the one that the adapter names, if it is a folder."""
    if given is not None:
        return given
    try:
        return Path(named) if named and Path(named).is_dir() else None
    except (OSError, ValueError):  # a name that cannot be a path
        return None


def judge_base(named: str | None, given: Path | None, findings: Findings) -> Base | None:
    """The base where it can be read. `named`: by the adapter's config; `given`: by the caller."""
    path = find_base(named, given)
    if path is None:
        if named:
            findings.warn("base", "gone", base=named)
        else:
            findings.warn("base", "unnamed")
        return None
    try:
        folder = list_folder(path)
    except NotFound:
        findings.fail("base", "gone", base=str(path))
        return None
    return _read(folder, findings)


def _read(folder: Folder, findings: Findings) -> Base | None:
    config = folder.json(CONFIG).value
    if config is None or folder.loose:
        findings.fail("base", "no-model", base=str(folder.path))
        return None
    inside = Findings()
    weights = read_files(folder, model_files(folder), inside)
    for check in inside.checks():
        if check.verdict == "fail":
            findings.fail("base", "damaged", base=str(folder.path), file=str(check.params.get("file", "")))
    matrices = {
        name.removesuffix(".weight"): (tensor.shape[0], tensor.shape[1])
        for name, tensor in weights.tensors.items()
        if name.endswith(".weight") and len(tensor.shape) == 2
    }
    embedding = input_embedding(weights)
    if embedding and is_tied(config, weights):  # a module of its own, though it has no tensor of its own
        matrices.setdefault(OUTPUT.removesuffix(".weight"), matrices[embedding.removesuffix(".weight")])
    if not matrices and not findings.faulty("base"):
        findings.warn("base", "unreadable", base=str(folder.path))
    known = architecture.known(config) and not weights.broken
    rows = embedding_rows(weights)
    return Base(folder, matrices, weights.tensors.keys(), rows, known and bool(matrices), weights)
