"""Names of models of a hub, and the folders that they lead to."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeroboard.contract.hub import MANIFEST, HubManifest
from zeroboard.files import write_atomic
from zeroboard.paths import Paths
from zeroboard.planning import hub
from zeroboard.planning.models import read_model

OLD, NEW = "a" * 40, "b" * 40


def put(paths: Paths, commit: str, *, code: bool = False, **revisions: float) -> None:
    """A model that came, as far as names go."""
    manifest = HubManifest(repository="someone/model", commit=commit, revisions=revisions, code=code, files=())
    folder = paths.hub / hub.folder_name("someone/model", commit)
    write_atomic(folder / MANIFEST, manifest.model_dump_json())


def found(text: str, paths: Paths) -> str | None:
    ref = hub.parse(text)
    model = hub.find(ref, paths) if ref is not None else None
    return model.manifest.commit if model is not None else None


@pytest.mark.parametrize("text", ["hub:someone/model", "hub:some-one/Model_1.5-it@v1.0", "hub:a/b@refs/pr/1"])
def test_names_read_back(text: str) -> None:
    assert str(hub.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["someone/model", "./hub:a/b", "Hub:a/b", "hub:a", "hub:a/b/c", "hub:a/b@-x", "hub:a/b\n"]
)
def test_other_texts_are_none(text: str) -> None:
    assert hub.parse(text) is None


def test_a_wrong_path_never_becomes_a_name_of_the_hub(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    put(paths, NEW, main=1.0)
    for text in ("someone/model", f"someone--model@{NEW}"):
        facts, (problem,) = read_model(text, paths)
        assert facts is None and problem.code == "model-missing" and problem.set is None
    assert read_model("someone/model", paths)[1][0].message_key == "problem.model-missing.hub"


def test_a_branch_leads_where_it_led_last_and_a_commit_to_itself(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    assert found("hub:someone/model@main", paths) is None
    put(paths, OLD, main=1.0, v1=1.0)
    put(paths, NEW, main=2.0)
    (paths.hub / f".part-someone--model@{'c' * 40}").mkdir()
    (paths.hub / f"someone--model@{'d' * 40}").mkdir()
    assert found("hub:someone/model@main", paths) == NEW
    assert found("hub:someone/model@v1", paths) == OLD
    assert found(f"hub:someone/model@{OLD}", paths) == OLD
    assert found("hub:someone/model", paths) is None
    assert found("hub:someone/other@main", paths) is None
    assert hub.names(paths) == [f"hub:someone/model@{OLD}", "hub:someone/model@main"]


def test_code_that_did_not_come_is_told(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    put(paths, OLD, v1=1.0)
    put(paths, NEW, code=True, v2=1.0)
    lacking = hub.without_code("hub:someone/model@v1", paths)
    assert lacking is not None and lacking.message_key == "problem.model-missing.hub-code"
    assert hub.without_code("hub:someone/model@v2", paths) is None
    assert hub.without_code(str(tmp_path), paths) is None
