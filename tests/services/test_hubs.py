"""Models and data come from a stand-in of ModelScope under `ms:`: checked, pinned, and apart from the hub's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from tests.fakes.modelscope import Scope, modelscope
from zeroboard.contract.hub import HubFetch
from zeroboard.paths import Paths
from zeroboard.planning.hub import HubFolder, find, names
from zeroboard.services import download, fetching, hubs, prepare

TOKEN = "ms-abcdefghijklmnop"
ROW = b'{"instruction": "Hi", "output": "Hello"}\n'


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scope]:
    for name in (*hubs.TOKENS.values(), *fetching.OFFLINE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)  # read once, when the library is imported
    with modelscope(TOKEN) as stand_in:
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", stand_in.endpoint)
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody is there, and nobody asks
        yield stand_in


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "cache")


def fetch(paths: Paths, text: str, kind: str = "model", token: str | None = None) -> HubFolder:
    return fetching.fetch(paths, fetching.wanted(text, kind), token=token)  # type: ignore[arg-type]


def refused(paths: Paths, text: str, kind: str = "model", token: str | None = None) -> str:
    """Why a fetch ends, within this process."""
    ref = fetching.wanted(text, kind)  # type: ignore[arg-type]
    asked = HubFetch(
        site=ref.site, kind=ref.kind, repository=ref.repository, revision=ref.revision, root=str(paths.hub),
        lock=str(paths.locks), free=1 << 40, code=False, token=token,
    )  # fmt: skip
    with pytest.raises(Exception) as caught:
        download.fetch(asked, paths.root / "told.json")
    return download.reason(caught.value, asked).message_key


def test_a_model_comes_whole_and_the_plan_pins_what_it_is(known: Scope, paths: Paths, tiny_model_folder: Path) -> None:
    files = {file.name: file.read_bytes() for file in tiny_model_folder.iterdir() if file.is_file()}
    strange = {"pytorch_model.bin": b"pickle", "../out.json": b"{}", "configuration.json": b"{}"}
    known.repositories["models", "some/tiny"] = {**files, **strange}
    known.cuts = [100]  # the first file is cut, and asked for once more
    spec = prepare.load_spec("demo", ["model.path=ms:some/tiny"])
    assert not prepare.plan(paths, spec).ok
    fetching.ensure(paths, spec.model.path, token=None, on_progress=lambda _: None)
    model = find(fetching.wanted("ms:some/tiny"), paths)
    assert model is not None and model.folder.name == f"ms+some--tiny@{model.manifest.commit}"
    assert {file.name for file in model.manifest.files} == {*files, "configuration.json"}
    assert all((model.folder / name).read_bytes() == content for name, content in files.items())
    assert len(known.asked) == len(model.manifest.files) + 1
    plan = prepare.plan(paths, spec)
    (pinned,) = [decision for decision in plan.decisions if decision.says == "decision.hub"]
    assert plan.ok and pinned.value == model.manifest.commit and names(paths) == ["ms:some/tiny"]
    assert find(fetching.wanted("hub:some/tiny"), paths) is None, "the hub's model of that name is another"

    known.asked.clear()
    assert fetch(paths, "ms:some/tiny").folder == model.folder and known.asked == []
    known.repositories["models", "some/tiny"]["README.md"] = b"changed"
    later = fetch(paths, "ms:some/tiny")
    assert later.folder != model.folder and set(names(paths)) == {
        "ms:some/tiny",
        f"ms:some/tiny@{model.manifest.commit}",
    }


def test_data_comes_page_by_page_and_only_its_training_split(known: Scope, paths: Paths) -> None:
    many = {f"pictures/{n}.png": b"x" for n in range(hubs.PAGE + 5)}
    known.repositories["datasets", "some/rows"] = {**many, "test.jsonl": ROW, "train.jsonl": ROW * 2}
    assert fetch(paths, "ms:some/rows", "dataset").data.read_bytes() == ROW * 2
    assert [name for name, _ in known.asked] == ["train.jsonl"]
    assert fetch(paths, "ms:some/rows@master/test.jsonl", "dataset").data.read_bytes() == ROW


def test_a_site_that_does_not_turn_the_page_is_asked_twice_and_no_part_is_taken_for_the_whole(
    known: Scope, paths: Paths
) -> None:
    known.repositories["datasets", "some/rows"] = {f"train-{n}.jsonl": ROW for n in range(hubs.PAGE + 5)}
    known.stuck = True
    assert refused(paths, "ms:some/rows", "dataset") == "problem.hub-failed.too-many"
    assert known.listed == 2


def test_why_nothing_comes_is_said_plainly(known: Scope, paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    known.repositories["models", "some/gated"] = {"config.json": b"{}", "model.safetensors": b"weights"}
    known.gated.add("some/gated")
    assert refused(paths, "ms:some/none") == "problem.model-missing.hub-repository"
    assert refused(paths, "ms:some/gated@v9") == "problem.model-missing.hub-revision"
    assert refused(paths, "ms:some/none", "dataset") == "problem.data-missing.hub-repository"
    assert refused(paths, "ms:some/gated") == "problem.hub-gated"
    assert refused(paths, "ms:some/gated", token="ms-wrong") == "problem.hub-gated.refused"
    known.lies = True
    assert refused(paths, "ms:some/gated", token=TOKEN) == "problem.hub-failed.damaged"
    known.lies = False
    assert (fetch(paths, "ms:some/gated", token=TOKEN).folder / "model.safetensors").read_bytes() == b"weights"
    everything = b"".join(file.read_bytes() for file in paths.root.rglob("*") if file.is_file())
    assert TOKEN.encode() not in everything and b"ms-wrong" not in everything
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", "http://127.0.0.1:9")
    assert refused(paths, "ms:some/gated") == "problem.hub-unreachable"
