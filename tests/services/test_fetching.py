"""Models come from a stand-in of the hub, by a process of its own: whole or not at all, and no secret stays behind."""

from __future__ import annotations

import itertools
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.fakes.hub import COMMIT, TOKEN, Hub, Model
from zeroboard.errors import Refused
from zeroboard.paths import Paths
from zeroboard.planning.hub import find
from zeroboard.runs.verbs import Cancelled
from zeroboard.services import fetching, prepare

BLOCK = 10 << 20
"""The hub's library writes in such pieces."""
LARGE = bytes(2 * BLOCK + 4000)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "缓存")


def refused(paths: Paths, text: str, token: str | None = None) -> str:
    """The sentence's key of the one problem."""
    with pytest.raises(Refused) as caught:
        fetching.fetch(paths, fetching.wanted(text), token=token)
    (problem,) = caught.value.problems
    return problem.message_key


def small(**more: bytes) -> dict[str, bytes]:
    return {"config.json": b"{}", "model.safetensors": b"weights", **more}


def test_a_model_comes_whole_and_the_plan_pins_its_commit(known: Hub, paths: Paths, tiny_model_folder: Path) -> None:
    files = {file.name: file.read_bytes() for file in tiny_model_folder.iterdir() if file.is_file()}
    strange = {
        "pytorch_model.bin": b"pickle", "optimizer.pt": b"pickle", "modeling.py": b"print()", ".gitattributes": b"x",
        "original/consolidated.safetensors": b"again", "consolidated.safetensors": b"again", "../out.json": b"{}",
        "zeroboard-hub.json": b"{}",
    }  # fmt: skip
    known.models["someone/tiny"] = Model({**files, **strange, "LICENSE": b"free"})
    spec = prepare.load_spec("demo", ["model.path=hub:someone/tiny"])
    before = prepare.plan(paths, spec)
    assert "problem.model-missing.not-fetched" in [problem.message_key for problem in before.problems]

    seen: list[fetching.Coming] = []
    fetching.ensure(paths, spec.model.path, code=False, token=None, on_progress=seen.append)
    model = find(fetching.wanted("hub:someone/tiny"), paths)
    assert model is not None and model.folder.name == f"someone--tiny@{COMMIT}"
    assert {file.name for file in model.manifest.files} == {*files, "LICENSE"}
    assert {file.name: file.read_bytes() for file in model.folder.iterdir() if file.name in files} == files
    assert {file.name for file in paths.hub.iterdir()} == {model.folder.name}
    assert {name for name, _ in known.asked} == {*files, "LICENSE"}

    plan = prepare.plan(paths, spec)
    assert plan.ok and plan.resolved is not None and plan.resolved.model_path == str(model.folder)
    (pinned,) = [decision for decision in plan.decisions if decision.says == "decision.hub"]
    assert pinned.value == COMMIT and pinned.params["asked"] == "hub:someone/tiny"
    assert "hub:someone/tiny" in prepare.choices(paths).models

    known.asked.clear()
    fetching.ensure(paths, spec.model.path, code=False, token=None, on_progress=seen.append)
    assert known.asked == []
    again = fetching.fetch(paths, fetching.wanted("hub:someone/tiny"), code=True)
    assert [name for name, _ in known.asked] == ["modeling.py"]
    assert (again.folder / "modeling.py").read_bytes() == b"print()" and again.manifest.code
    assert {file.name for file in again.manifest.files} == {*files, "LICENSE", "modeling.py"}


def test_it_is_told_in_bytes_can_be_ended_and_goes_on_where_it_was(known: Hub, paths: Paths) -> None:
    known.models["someone/large"] = Model({"config.json": b"{}", "model.safetensors": LARGE})
    known.stalls = True
    seen: list[fetching.Coming] = []
    ref = fetching.wanted("hub:someone/large@main")
    with pytest.raises(Cancelled):
        fetching.fetch(paths, ref, on_progress=seen.append, cancelled=lambda: bool(seen) and seen[-1].done >= BLOCK)
    assert seen[-1].total == len(LARGE) + 2 and BLOCK <= seen[-1].done < len(LARGE)
    assert find(ref, paths) is None
    assert [folder.name for folder in paths.hub.iterdir()] == [f".part-someone--large@{COMMIT}"]

    known.stalls, known.asked = False, []
    model = fetching.fetch(paths, ref)
    assert ("model.safetensors", f"bytes={BLOCK}-") in known.asked
    assert (model.folder / "model.safetensors").read_bytes() == LARGE
    assert model.manifest.revisions.keys() == {"main"}


def test_a_connection_that_is_cut_goes_on(known: Hub, paths: Paths) -> None:
    known.models["someone/large"] = Model({"config.json": b"{}", "model.safetensors": LARGE})
    known.cuts = [BLOCK + 5]
    model = fetching.fetch(paths, fetching.wanted("hub:someone/large"))
    ranges = [given for name, given in known.asked if name == "model.safetensors"]
    assert len(ranges) == 2 and ranges[0] == "" and ranges[1].startswith("bytes=")
    assert (model.folder / "model.safetensors").read_bytes() == LARGE


def test_a_gated_model_needs_a_token_that_no_file_keeps(known: Hub, paths: Paths, tmp_path: Path) -> None:
    known.models["someone/gated"] = Model(small(), gated=True)
    assert refused(paths, "hub:someone/gated", "hf_somebodyelse") == "problem.hub-gated.refused"
    assert refused(paths, "hub:someone/gated", "two words") == "problem.hub-token"
    model = fetching.fetch(paths, fetching.wanted("hub:someone/gated"), token=TOKEN)
    assert (model.folder / "model.safetensors").read_bytes() == b"weights"
    everything = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert TOKEN.encode() not in everything and b"hf_somebodyelse" not in everything


def test_what_can_be_seen_here_is_told_before_anybody_is_asked(
    known: Hub, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    known.models["someone/small"] = Model(small())
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
        assert refused(paths, "hub:someone/small") == "problem.disk-space.fetch"
    for name in fetching.OFFLINE:
        with monkeypatch.context() as patched:
            patched.setenv(name, "1")
            assert refused(paths, "hub:someone/small") == "problem.hub-unreachable.offline"
    assert known.asked == [] and list(paths.hub.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["hub:", "hub:name", "hub:a/b/c", "hub:a/../b", "hub:a/b@", "hub:a--b/c", "hub:a/b@../c"]
)
def test_what_no_hub_can_have_is_never_asked_for(text: str, paths: Paths) -> None:
    assert refused(paths, text) == "problem.model-missing.hub-name"


def test_pages_share_what_is_coming(known: Hub, paths: Paths) -> None:
    known.models["someone/large"] = Model({"config.json": b"{}", "model.safetensors": LARGE})
    known.stalls = True
    shared = fetching.Fetching(paths)
    job = shared.start("hub:someone/large", code=False, token=None)
    assert shared.start("hub:someone/large", code=False, token=None) is job is shared.look("hub:someone/large")
    for _ in itertools.takewhile(lambda _: job.coming.total is None, range(100)):
        time.sleep(0.1)
    assert job.coming.share is not None and not job.ended.is_set()
    job.stop.set()
    assert job.ended.wait(10) and job.cancelled
    assert shared.look("hub:someone/other") is None
