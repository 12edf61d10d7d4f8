"""The bundled model is prepared once, and a name that is none is refused before a process starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeroboard.catalogue import MODELS
from zeroboard.errors import NotFound
from zeroboard.paths import Paths
from zeroboard.services.models import prepare_model


def test_a_name_that_is_no_bundled_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as refused:
        prepare_model(Paths(tmp_path), "SmolLM2-136M")
    assert refused.value.says == "error.model-not-bundled"
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    folder = MODELS[0].folder(paths)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}", encoding="utf-8")
    said: list[object] = []
    assert prepare_model(paths, MODELS[0].name, on_progress=said.append) == folder
    assert said == []
    assert not paths.logs.exists()


@pytest.mark.train
def test_the_bundled_model_is_converted_with_progress_and_whole(bundled: tuple[Path, list[float | None]]) -> None:
    folder, told = bundled
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in folder.iterdir()}
    assert told
    assert [path.name for path in folder.parent.iterdir() if not path.name.startswith(".")] == [MODELS[0].name]
