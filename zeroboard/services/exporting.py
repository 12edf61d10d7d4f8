"""From a person's words to an export: the wish is made whole from what is known of the source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zeroboard.checkpoints.folder import list_folder
from zeroboard.checkpoints.inspect import source_kind
from zeroboard.contract.exports import ExportState, ExportWish
from zeroboard.contract.problems import Problem
from zeroboard.contract.reports import Kind
from zeroboard.errors import NotFound, Refused
from zeroboard.paths import ExportPaths, Paths
from zeroboard.services import export_source, export_work, exports


def source(folder: Path) -> Kind:
    """What an export takes a folder for: ZeRO states also where the settings of an adapter lie beside them. `unknown`
    where nothing is there any more."""
    try:
        return source_kind(list_folder(folder))
    except NotFound:
        return "unknown"


def wish(paths: Paths, word: str, target: Path, *, base: str | None = None, **choices: Any) -> ExportWish:
    """What is asked for, with the folder that is meant, its kind, its run and its base.

    `choices` are fields of `ExportWish`. Raises `NotFound`, and `Refused` where the folder holds nothing to export.
    """
    found = export_source.find(paths, word, base)
    if found.kind not in ("lora-adapter", "full-model", "zero-checkpoint") or not found.path.is_dir():
        params = {"path": str(found.path)}
        raise Refused([Problem(code="model-unsupported", says="export.not-a-model", params=params)])
    spec = export_source.spec_of(paths, found.run_id)
    return ExportWish(
        word=word,
        path=str(found.path),
        kind=found.kind,
        run_id=found.run_id,
        base=str(found.base) if found.base is not None else None,
        target=str(target),
        trust_remote_code=spec is not None and spec.model.trust_remote_code,
        **choices,
    )


def run(
    paths: Paths, asked: ExportWish, token: str | None = None, *, on_state: export_work.OnState
) -> tuple[ExportState, ExportPaths]:
    """Do it here and now; returns its last state and its record. Raises `Refused` where it cannot begin."""
    job = exports.create(paths, asked, token)
    return export_work.work(paths, job, token, on_state), job
