from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from tests.checkpoints import folders
from tests.checkpoints.folders import faults, found, judged, passed

INDEX = "model.safetensors.index.json"
FIRST = "model-00001-of-00002.safetensors"
SECOND = "model-00002-of-00002.safetensors"


def reindex(folder: Path, **moved: str) -> None:
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"] |= moved
    folders.write_json(folder / INDEX, index)


def test_sound_shards_pass(tmp_path: Path) -> None:
    verdict = judged(folders.shards(tmp_path / "m"))
    assert not faults(verdict)
    assert {"header", "size", "index", "shards", "keys", "shapes", "finite"} <= passed(verdict)


def test_a_shard_that_is_gone_is_named(tmp_path: Path) -> None:
    folder = folders.shards(tmp_path / "m")
    (folder / SECOND).unlink()
    verdict = judged(folder)
    assert faults(verdict) == {"check.shards.missing": "fail"}
    assert SECOND in str(found(verdict, "check.shards.missing").params["names"])


def test_an_index_that_points_to_the_wrong_shard_names_the_tensor(tmp_path: Path) -> None:
    folder = folders.shards(tmp_path / "m")
    reindex(folder, **{"model.norm.weight": FIRST})
    verdict = judged(folder)
    assert found(verdict, "check.index.disagrees").params["names"] == "model.norm.weight"
    assert found(verdict, "check.index.disagrees").params["holder"] == SECOND


def test_a_tensor_that_the_index_does_not_know_is_named(tmp_path: Path) -> None:
    folder = folders.shards(tmp_path / "m")
    index = json.loads((folder / INDEX).read_text())
    del index["weight_map"]["model.norm.weight"]
    folders.write_json(folder / INDEX, index)
    assert faults(judged(folder)) == {"check.index.unnamed": "fail"}


def test_an_index_never_leads_out_of_its_folder(tmp_path: Path) -> None:
    folder = folders.shards(tmp_path / "m")
    folders.write_safetensors(tmp_path / "secret.safetensors", {"x": np.zeros(3, np.float32)})
    reindex(folder, extra="../secret.safetensors", more=str(tmp_path / "secret.safetensors"))
    verdict = judged(folder)
    assert faults(verdict)["check.index.unsafe-name"] == "fail"
    assert found(verdict, "check.header.ok").params["files"] == 2


def test_several_files_without_an_index_fail(tmp_path: Path) -> None:
    folder = folders.shards(tmp_path / "m")
    (folder / INDEX).unlink()
    assert faults(judged(folder)) == {"check.index.missing": "fail"}


def test_a_stray_shard_is_a_warning(tmp_path: Path) -> None:
    folder = folders.shards(tmp_path / "m")
    (folder / "model-00001-of-00007.safetensors").write_bytes((folder / FIRST).read_bytes())
    assert faults(judged(folder)) == {"check.shards.stray": "warn"}


def test_an_old_index_beside_a_single_file_is_a_warning(tmp_path: Path) -> None:
    folder = folders.shards(tmp_path / "m")
    folders.write_safetensors(folder / "model.safetensors", folders.model_arrays())
    assert faults(judged(folder)) == {"check.index.beside-single": "warn", "check.shards.stray": "warn"}


def test_a_broken_index_is_a_verdict(tmp_path: Path) -> None:
    for content in ("{", "[]", '{"weight_map": {}}', '{"weight_map": 3}', "[" * 100_000, '{"weight_map": {"a": 1}}'):
        folder = folders.shards(tmp_path / str(len(content)))
        (folder / INDEX).write_text(content)
        assert any(key.startswith("check.index.") for key in faults(judged(folder))), content


def test_a_cut_file_tells_both_sizes(tmp_path: Path) -> None:
    folder = folders.model(tmp_path / "m")
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100])
    verdict = judged(folder)
    assert faults(verdict) == {"check.size.cut": "fail"}
    params = found(verdict, "check.size.cut").params
    assert (params["size"], params["promised"]) == (len(whole) - 100, len(whole))


def test_bytes_after_the_end_fail(tmp_path: Path) -> None:
    folder = folders.model(tmp_path / "m")
    with (folder / "model.safetensors").open("ab") as stream:
        stream.write(b"\0" * 8)
    assert faults(judged(folder)) == {"check.size.too-long": "fail"}


def test_other_files_under_the_name_of_weights_are_recognised(tmp_path: Path) -> None:
    contents = {
        "header.lfs-pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
        "header.html": b"<!DOCTYPE html><html><body>429</body></html>",
        "header.too-short": b"",
        "header.impossible-length": b"\xff" * 4000,
        "header.cut": b"\x00\x10\x00\x00\x00\x00\x00\x00{}",
        "header.not-json": b"\x04\x00\x00\x00\x00\x00\x00\x00nope",
    }
    for says, content in contents.items():
        folder = folders.model(tmp_path / says)
        (folder / "model.safetensors").write_bytes(content)
        verdict = judged(folder)
        assert faults(verdict) == {says: "fail"}
        assert verdict.kind == "full-model"


def test_a_weight_file_that_may_not_be_read_is_a_verdict(tmp_path: Path) -> None:
    folder = folders.model(tmp_path / "m")
    (folder / "model.safetensors").chmod(0)
    if os.access(folder / "model.safetensors", os.R_OK):  # the superuser may read anything
        return
    assert faults(judged(folder)) == {"check.header.unreadable": "fail"}
