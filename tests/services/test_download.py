"""What the process that downloads does and says, within this process; as a process of its own: `test_fetching`."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from tests.fakes.hub import COMMIT, Hub, Model, hub
from zeroboard.contract.hub import MANIFEST, HubFetch
from zeroboard.contract.problems import Problem
from zeroboard.errors import Refused
from zeroboard.planning.hub import read_manifest
from zeroboard.services import download, hubs

SMALL = {"config.json": b"{}", "model.safetensors": b"weights"}


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub("hf_right") as stand_in:
        monkeypatch.setenv("HF_ENDPOINT", stand_in.endpoint)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)  # read once, when the library is imported
        stand_in.models["someone/small"] = Model(dict(SMALL))
        yield stand_in


def asked(tmp_path: Path, repository: str = "someone/small", **more: object) -> HubFetch:
    given = {
        "repository": repository, "revision": None, "root": str(tmp_path / "hub"), "lock": str(tmp_path / "locks"),
        "free": 1 << 40, "code": False, "token": None,
    }  # fmt: skip
    return HubFetch.model_validate({**given, **more})


def refused(tmp_path: Path, wish: HubFetch) -> Problem:
    with pytest.raises(Exception) as caught:
        download.fetch(wish, tmp_path / "told.json")
    left = list(Path(wish.root).glob("[!.]*")) if Path(wish.root).is_dir() else []
    assert [folder for folder in left if read_manifest(folder) is not None] == []
    return download.reason(caught.value, wish)


def test_what_is_not_there_is_named(known: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known.models["someone/pickled"] = Model({"config.json": b"{}", "pytorch_model.bin": b"pickle"})
    known.models["someone/gated"] = Model(dict(SMALL), gated=True)
    wishes = {
        "problem.model-missing.hub-repository": asked(tmp_path, "someone/nothing"),
        "problem.model-missing.hub-revision": asked(tmp_path, revision="v9"),
        "problem.model-missing.hub-weights": asked(tmp_path, "someone/pickled"),
        "problem.disk-space.fetch": asked(tmp_path, free=download.RESERVE),
        "problem.hub-gated": asked(tmp_path, "someone/gated"),
        "problem.hub-gated.refused": asked(tmp_path, "someone/gated", token="hf_wrong"),
    }
    assert {key: refused(tmp_path, wish).message_key for key, wish in wishes.items()} == {key: key for key in wishes}
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    away = refused(tmp_path, asked(tmp_path))
    assert away.code == "hub-unreachable" and away.params["endpoint"] == "http://127.0.0.1:9"


def test_a_file_that_is_not_what_was_promised_is_thrown_away(
    known: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = known.models["someone/small"]
    told = model.told
    lie = {"sha256": "0" * 64, "size": 7, "pointerSize": 1}

    def lies(name: str, *, tree: bool) -> dict[str, object]:
        return {**told(name, tree=tree), **({"lfs": lie} if name.endswith(".safetensors") and not tree else {})}

    with monkeypatch.context() as patched:
        patched.setattr(model, "told", lies)
        found = refused(tmp_path, asked(tmp_path))
    assert found.message_key == "problem.hub-failed.damaged" and found.params["file"] == "model.safetensors"
    known.asked.clear()
    folder = download.fetch(asked(tmp_path), tmp_path / "told.json")
    assert [name for name, _ in known.asked] == ["model.safetensors"]
    assert (folder / "model.safetensors").read_bytes() == b"weights"


def test_a_branch_leads_where_it_led_when_it_was_fetched_last(known: Hub, tmp_path: Path) -> None:
    first = download.fetch(asked(tmp_path), tmp_path / "told.json")
    known.models["someone/small"].revisions["main"] = "d" * 40
    second = download.fetch(asked(tmp_path, revision="main"), tmp_path / "told.json")
    assert [first.name, second.name] == [f"someone--small@{COMMIT}", f"someone--small@{'d' * 40}"]
    manifests = read_manifest(first), read_manifest(second)
    assert [set(manifest.revisions) for manifest in manifests if manifest is not None] == [{""}, {"main"}]


def test_two_do_not_write_into_one_folder_and_nothing_of_others_is_replaced(known: Hub, tmp_path: Path) -> None:
    wish = asked(tmp_path)
    (tmp_path / "locks").mkdir()
    with (tmp_path / "locks" / f"hub-someone--small@{COMMIT}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert refused(tmp_path, wish).code == "hub-busy"
    in_the_way = tmp_path / "hub" / f"someone--small@{COMMIT}"
    in_the_way.mkdir(parents=True)
    (in_the_way / "mine.txt").write_text("mine")
    assert refused(tmp_path, wish).code == "hub-failed"
    assert [file.name for file in in_the_way.iterdir()] == ["mine.txt"]


def test_weights_come_once_and_only_what_is_safe_is_taken(known: Hub, tmp_path: Path) -> None:
    known.models["someone/small"].files |= {
        "consolidated.safetensors": b"again", "pytorch_model.bin": b"pickle", "training_args.bin": b"pickle",
        "x.pt": b"pickle", "run.py": b"1", "a/../../out.json": b"{}", MANIFEST: b"{}", "LICENSE.txt": b"free",
        "additional_chat_templates/tools.jinja": b"{}",
    }  # fmt: skip
    folder = download.fetch(asked(tmp_path), tmp_path / "told.json")
    manifest = read_manifest(folder)
    assert manifest is not None
    names = [file.name for file in manifest.files]
    assert names == ["LICENSE.txt", "additional_chat_templates/tools.jinja", "config.json", "model.safetensors"]
    assert {name for name, _ in known.asked} == set(names)


def test_a_card_of_untold_size_is_not_read_without_end(
    known: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = b"---\nconfigs:\n- config_name: default\n  data_files: b.jsonl\n---\n"
    model = known.datasets["someone/rows"] = Model({"README.md": card, "a.jsonl": b"{}", "b.jsonl": b"{}"})
    told = model.told
    monkeypatch.setattr(model, "told", lambda name, *, tree: {**told(name, tree=tree), "size": None})
    ask = asked(tmp_path, "someone/rows", kind="dataset")
    site = hubs.site(ask)
    commit, siblings = site.look()
    assert all(one.size is None for one in siblings)
    assert [one.rfilename for one in download.split(site, siblings, ask, commit)] == ["b.jsonl"]
    model.files["README.md"] = card + b" " * download.CARD_MOST
    with pytest.raises(Refused) as caught:
        download.split(site, siblings, ask, commit)
    assert caught.value.problems[0].message_key == "problem.data-missing.hub-files-unclear"
