"""Data sets come from a stand-in of the hub: the training split, pinned to a commit, and asked where it is unclear."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.fakes.hub import COMMIT, TOKEN, Hub, Model
from zeroboard.contract.problems import Problem
from zeroboard.errors import NotFound, Refused
from zeroboard.paths import Paths
from zeroboard.planning.hub import HubFolder, find, names, parse
from zeroboard.runs.verbs import Cancelled
from zeroboard.services import fetching, prepare
from zeroboard.services.judging import Judging, located

BLOCK = 10 << 20
ROWS = [{"instruction": f"What is {n}?", "output": f"It is {n}."} for n in range(6)]
ONE, TWO, REST = ("".join(json.dumps(row) + "\n" for row in part).encode() for part in (ROWS[:2], ROWS[2:5], ROWS[5:]))
SHARDED = {
    "README.md": b"---\nlicense: mit\n---\n", "data/train-00000-of-00002.jsonl": ONE,
    "data/test-00000-of-00001.jsonl": REST,
    "data/train-00001-of-00002.jsonl": TWO, "load.py": b"print()", "image.png": b"x",
}  # fmt: skip


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "缓存")


def fetch(paths: Paths, text: str, token: str | None = None) -> HubFolder:
    return fetching.fetch(paths, fetching.wanted(text, "dataset"), token=token)


def refused(paths: Paths, text: str, token: str | None = None) -> Problem:
    with pytest.raises(Refused) as caught:
        fetch(paths, text, token)
    (problem,) = caught.value.problems
    return problem


def test_the_training_split_comes_whole_and_the_plan_pins_its_commit(known: Hub, paths: Paths) -> None:
    known.datasets["someone/rows"] = Model(dict(SHARDED))
    spec = prepare.load_spec("demo", ["data.path=hub:someone/rows"])
    before = prepare.plan(paths, spec)
    assert "problem.data-missing.not-fetched" in [problem.message_key for problem in before.problems]

    fetching.ensure(paths, spec.data.path, kind="dataset", token=None, on_progress=lambda _: None)
    came = find(fetching.wanted("hub:someone/rows", "dataset"), paths)
    assert came is not None and came.folder == (paths.hub_data / f"someone--rows@{COMMIT}").absolute()
    trained = ["data/train-00000-of-00002.jsonl", "data/train-00001-of-00002.jsonl"]
    assert [file.name for file in came.manifest.files] == trained
    assert {name for name, _ in known.asked} == {"README.md", *trained}

    plan = prepare.plan(paths, spec)
    assert plan.ok and plan.resolved is not None and plan.resolved.data_path == str(came.folder)
    (pinned,) = [decision for decision in plan.decisions if decision.says == "decision.hub"]
    assert (pinned.field, pinned.value, pinned.params["asked"]) == ("data.path", COMMIT, "hub:someone/rows")
    report = Judging(paths).look("hub:someone/rows", wait=20.0).report
    assert report is not None and (report.usable, report.problems) == (5, ()), "the note of the hub is no data"
    assert prepare.choices(paths).datasets[-1] == "hub:someone/rows"

    known.asked.clear()
    fetching.ensure(paths, spec.data.path, kind="dataset", token=None, on_progress=lambda _: None)
    assert known.asked == []


def test_a_file_a_folder_and_a_revision_can_be_named(known: Hub, paths: Paths) -> None:
    files = {"en/a.jsonl": ONE, "en/b.jsonl": TWO, "de/c.jsonl": REST}
    known.datasets["someone/rows"] = Model(files, revisions={"main": COMMIT, "refs/convert/parquet": "b" * 40})
    unclear = refused(paths, "hub:someone/rows")
    assert unclear.message_key == "problem.data-missing.hub-files-unclear" and unclear.field == "data.path"
    assert unclear.params["files"] == "de/c.jsonl, en/a.jsonl, en/b.jsonl"
    assert refused(paths, "hub:someone/rows/fr").message_key == "problem.data-missing.hub-files-absent"

    assert fetch(paths, "hub:someone/rows/en/a.jsonl").data.read_bytes() == ONE
    assert fetch(paths, "hub:someone/rows@main/en").data.is_dir()
    pinned = fetch(paths, "hub:someone/rows@refs/convert/parquet/**/c.*")
    assert pinned.manifest.commit == "b" * 40 and pinned.data.read_bytes() == REST
    assert located(paths, "hub:someone/rows/en/a.jsonl").endswith("en/a.jsonl")
    assert set(names(paths, "dataset")) == {
        "hub:someone/rows/en/a.jsonl", "hub:someone/rows@main/en", "hub:someone/rows@refs/convert/parquet/**/c.*",
    }  # fmt: skip
    assert names(paths) == [] and prepare.choices(paths).models == prepare.choices(Paths(paths.root / "no")).models


def test_the_card_says_which_files_are_meant(known: Hub, paths: Paths) -> None:
    card = b"---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: b.jsonl\n---\n"
    known.datasets["someone/rows"] = Model({"README.md": card, "a.jsonl": ONE, "b.jsonl": TWO})
    assert fetch(paths, "hub:someone/rows").data.read_bytes() == TWO


def test_it_can_be_ended_and_goes_on_where_it_was(known: Hub, paths: Paths) -> None:
    large = bytes(2 * BLOCK + 4000)
    known.datasets["someone/large"] = Model({"train.parquet": large})
    known.stalls, seen = True, list[fetching.Coming]()
    ref = fetching.wanted("hub:someone/large", "dataset")
    with pytest.raises(Cancelled):
        fetching.fetch(paths, ref, on_progress=seen.append, cancelled=lambda: bool(seen) and seen[-1].done >= BLOCK)
    assert seen[-1].total == len(large) and find(ref, paths) is None
    with pytest.raises(NotFound, match=r"error\.data-not-fetched"):
        located(paths, "hub:someone/large")
    known.stalls, known.asked = False, []
    assert fetching.fetch(paths, ref).data.read_bytes() == large
    assert ("train.parquet", f"bytes={BLOCK}-") in known.asked


def test_a_gated_data_set_needs_a_token_that_no_file_keeps(known: Hub, paths: Paths, tmp_path: Path) -> None:
    known.datasets["someone/gated"] = Model(dict(SHARDED), gated=True)
    without = refused(paths, "hub:someone/gated")
    assert without.code == "hub-gated" and str(without.params["page"]).endswith("/datasets/someone/gated")
    assert refused(paths, "hub:someone/gated", "hf_wrong").message_key == "problem.hub-gated.refused"
    assert fetch(paths, "hub:someone/gated", TOKEN).data.is_dir()
    everything = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert TOKEN.encode() not in everything and b"hf_wrong" not in everything


def test_why_nothing_comes_is_said_plainly(known: Hub, paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    known.datasets["someone/rows"] = Model({"train.jsonl": ONE})
    known.datasets["someone/pictures"] = Model({"a.png": b"x", "train.zip": b"PK"})
    said = {
        "hub:someone/nothing": "problem.data-missing.hub-repository",
        "hub:someone/rows@v9": "problem.data-missing.hub-revision",
        "hub:someone/pictures": "problem.data-missing.hub-files-none",
    }
    assert {text: refused(paths, text).message_key for text in said} == said
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
        assert refused(paths, "hub:someone/rows").message_key == "problem.disk-space.fetch"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert refused(paths, "hub:someone/rows").message_key == "problem.hub-unreachable.offline"


@pytest.mark.parametrize(
    "text",
    [
        "hub:name", "hub:a/b/../c", "hub:a/b/d/../c", "hub:a/b/.git/x", "hub:a/b@", "hub:a--b/c", "hub:a..b/c",
        "hub:a/b@v1..v2/c", "hub:a/b//c", "hub:a/b/\\c",
    ],
)  # fmt: skip
def test_what_no_hub_can_have_is_never_asked_for(text: str, paths: Paths) -> None:
    assert parse(text, "dataset") is None
    assert refused(paths, text).message_key == "problem.data-missing.hub-name"
    found = Judging(paths).look(text).problem(text)
    assert found is not None and found.message_key == "problem.data-missing.hub-name"


def test_two_dots_within_a_name_lead_nowhere_else() -> None:
    named = parse("hub:a/b@v1/d/rows..2024.jsonl", "dataset")
    assert named is not None and (named.repository, named.revision, named.file) == ("a/b", "v1", "d/rows..2024.jsonl")


def test_a_wrong_path_never_becomes_a_name_of_the_hub(known: Hub, paths: Paths) -> None:
    known.datasets["someone/rows"] = Model({"train.jsonl": ONE})
    spec = prepare.load_spec("demo", ["data.path=someone/rows"])
    fetching.ensure(paths, spec.data.path, kind="dataset", token=None, on_progress=lambda _: None)
    found = [problem.message_key for problem in prepare.plan(paths, spec).problems]
    assert "problem.data-missing.hub" in found and known.asked == []


def test_what_is_mixed_in_or_measured_may_come_from_the_hub_too_and_is_pinned(
    known: Hub, paths: Paths, tmp_path: Path
) -> None:
    known.datasets["someone/rows"] = Model({"train.jsonl": ONE})
    known.datasets["someone/held"] = Model({"train.jsonl": TWO})
    sets = ["data.more=[{path: 'hub:someone/rows', weight: 0.5}]", "data.eval_path=hub:someone/held"]
    spec = prepare.load_spec("demo", sets)
    missing = prepare.plan(paths, spec).problems
    assert [(p.field, p.says) for p in missing if p.code == "data-missing"] == [
        ("data.more", "problem.data-missing.not-fetched"),
        ("data.eval_path", "problem.data-missing.not-fetched"),
    ]
    for path in spec.data.mix.paths:
        fetching.ensure(paths, path, kind="dataset", token=None, on_progress=lambda _: None)
    plan = prepare.plan(paths, spec)
    assert plan.ok and plan.resolved is not None
    places = [str(fetch(paths, path).data) for path in spec.data.mix.paths]
    assert list(plan.resolved.mix.paths) == places and plan.resolved.mix.weights == (1.0, 0.5)
    pinned = [(d.field, d.value, d.params["asked"]) for d in plan.decisions if d.says == "decision.hub"]
    assert pinned == [("data.more", COMMIT, "hub:someone/rows"), ("data.eval_path", COMMIT, "hub:someone/held")]
