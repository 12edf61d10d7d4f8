"""Which files of a repository are trained on: as the hub's own library chooses, and asked where it would guess."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from zeroboard.planning.splits import choose

SHARDS = ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet", "data/test-00000-of-00001.parquet"]

LISTINGS = [
    SHARDS,
    ["train.jsonl", "test.jsonl"],
    ["my-train.csv", "my-dev.csv", "notes.txt"],
    ["rows_training_v2.json", "rows_eval.json"],
    ["train/a.jsonl", "train/b.jsonl", "validation/a.jsonl"],
    ["en/data-train/a.jsonl", "en/test/a.jsonl"],
    ["train1.jsonl", "train2.jsonl"],
    ["constraint.jsonl", "train.jsonl"],
    ["only.parquet"],
    ["part-00000-of-00002.parquet", "part-00001-of-00002.parquet"],
]


@pytest.mark.parametrize("names", LISTINGS, ids=lambda names: names[0])
def test_the_hubs_own_library_chooses_the_same(names: list[str], tmp_path: Path) -> None:
    library = pytest.importorskip("datasets.data_files")
    for name in names:
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    patterns = library.get_data_patterns(str(tmp_path))["train"]
    theirs = {Path(f).relative_to(tmp_path).as_posix() for p in patterns for f in _resolve(library, p, tmp_path)}
    assert set(choose(names).files) == theirs


def _resolve(library: object, pattern: str, base: Path) -> list[str]:
    try:
        return list(library.resolve_pattern(pattern, str(base)))  # type: ignore[attr-defined]
    except FileNotFoundError:
        return []


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["a.jsonl", "b.jsonl"], "unclear"),
        (["test.jsonl"], "unclear"),
        (["train.jsonl", "train.parquet"], "kinds"),
        (["README.md", "image.png", "config.json", "__pycache__/a.json", ".hidden/a.json"], "none"),
    ],
)
def test_where_nothing_says_which_file_is_meant_the_person_is_asked(names: list[str], why: str) -> None:
    found = choose(names)
    assert (found.files, found.why) == ((), why)
    assert set(found.shown) <= set(names) and bool(found.shown) == (why != "none")


@pytest.mark.parametrize(
    ("asked", "files"),
    [
        ("en/a.jsonl", ["en/a.jsonl"]),
        ("en", ["en/a.jsonl", "en/b.jsonl"]),
        ("zh", ["zh/train.jsonl"]),
        ("*/a.jsonl", ["en/a.jsonl"]),
        ("**/[!a].jsonl", ["en/b.jsonl"]),
        ("odd.name", ["odd.name"]),
        ("fr", []),
        ("fr/*.jsonl", []),
        ("[z-a].jsonl", []),
        ("**/b.jsonl", ["en/b.jsonl"]),
        ("**/odd.n*", []),
        ("en/**", ["en/a.jsonl", "en/b.jsonl"]),
        ("e?/*[^b].jsonl", ["en/a.jsonl"]),
    ],
)
def test_a_person_names_a_file_a_folder_or_a_pattern(asked: str, files: list[str]) -> None:
    names = ["en/a.jsonl", "en/b.jsonl", "zh/train.jsonl", "zh/test.jsonl", "odd.name"]
    found = choose(names, asked)
    assert list(found.files) == files
    assert found.why == (None if files else "absent")


def test_a_folder_of_other_splits_alone_is_there_and_leaves_a_choice() -> None:
    found = choose(["en/test.jsonl", "train.jsonl"], "en")
    assert (found.files, found.why, found.shown) == ((), "unclear", ("en/test.jsonl",))


@pytest.mark.parametrize("pattern", ["*a" * 18 + "b", "**/" * 60 + "b", "*" * 200 + "b"])
def test_a_pattern_of_a_strangers_card_never_takes_for_ever(pattern: str) -> None:
    names = [f"{'a' * 40}c.jsonl", f"{'a/' * 60}c.jsonl"]
    began = time.process_time()
    assert choose(names, card=card(f"- config_name: a\n  data_files: '{pattern}'\n")).files == ()
    assert time.process_time() - began < 1.0


def card(configs: str) -> str:
    return f"---\nlicense: mit\nconfigs:\n{configs}---\n# Rows\n"


NAMED = ["main/x.jsonl", "other/y.jsonl", "train.jsonl"]


@pytest.mark.parametrize(
    ("configs", "files"),
    [
        ("- config_name: a\n  data_files: main/*.jsonl\n", ["main/x.jsonl"]),
        ("- config_name: a\n  data_files:\n  - split: train\n    path: main/**\n  - split: test\n    path: other/*\n",
         ["main/x.jsonl"]),
        ("- config_name: a\n  data_dir: other\n", ["other/y.jsonl"]),
        ("- config_name: a\n  data_files: main/x.jsonl\n- config_name: default\n  data_files: {train: other/y.jsonl}\n",
         ["other/y.jsonl"]),
        ("- config_name: a\n  data_files: main/x.jsonl\n- config_name: b\n  data_files: other/y.jsonl\n", []),
        ("- config_name: a\n  data_files: [{split: test, path: main/x.jsonl}]\n", []),
        ("- config_name: a\n", ["train.jsonl"]),
    ],
)  # fmt: skip
def test_the_card_says_it_first(configs: str, files: list[str]) -> None:
    found = choose(NAMED, card=card(configs))
    assert list(found.files) == files
    assert found.why == (None if files else "unclear")


@pytest.mark.parametrize("text", ["", "---\n: [\n---\n", "---\nconfigs: 3\n---\n", "---\n- a\n---\n", "no front"])
def test_a_card_that_says_nothing_is_no_reason(text: str) -> None:
    assert choose(NAMED, card=text).files == ("train.jsonl",)
