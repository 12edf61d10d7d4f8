"""The bundled models: prepared once, before they are first needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from zeroboard.catalogue import bundled_model
from zeroboard.contract.problems import errors
from zeroboard.contract.requests import ConvertRequest, Progress
from zeroboard.errors import NotFound, Refused
from zeroboard.paths import Paths
from zeroboard.runs import verbs


def prepare_model(paths: Paths, name: str, *, on_progress: Callable[[Progress], None] | None = None) -> Path:
    """The folder of a bundled model in `cache/models/`, converted now if it was not before.

    Raises `NotFound` where no bundled model has that name, `Refused` where its package is not installed, and
    `EngineFailed`.
    """
    model = bundled_model(name)
    if model is None:
        raise NotFound("error.model-not-bundled", name=name)
    folder = model.folder(paths)
    if not (folder / "config.json").is_file():
        answer = verbs.call(
            "convert",
            ConvertRequest(name=name, target=str(folder)),
            on_progress=on_progress,
            log_to=paths.logs / "convert.log",
        )
        if errors(answer.problems):
            raise Refused(answer.problems)
    return folder
