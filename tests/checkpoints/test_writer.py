"""The stream of safetensors files, and the folder that appears whole or not at all."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from zeroboard.checkpoints.whole import whole_folder
from zeroboard.checkpoints.writer import Entry, Piece, plan_shards, total_bytes, write_shards
from zeroboard.errors import Refused
from zeroboard.headers import read_header
from zeroboard.paths import HOME

ENTRIES = (
    Entry(name="flags", dtype="BOOL", shape=(3,)),
    Entry(name="a.weight", dtype="F32", shape=(4, 5)),
    Entry(name="空 格", dtype="F16", shape=(7,)),
    Entry(name="none", dtype="F32", shape=(0, 2)),
    Entry(name="scalar", dtype="I64", shape=()),
)
ARRAYS = {
    "flags": np.array([True, False, True]),
    "a.weight": np.arange(20, dtype=np.float32).reshape(4, 5),
    "空 格": np.arange(7, dtype=np.float16),
    "none": np.zeros((0, 2), np.float32),
    "scalar": np.array(7, dtype=np.int64),
}


def pieces(entry: Entry) -> Iterator[Piece]:
    raw = ARRAYS[entry.name].tobytes()
    yield from (raw[at : at + 6] for at in range(0, len(raw), 6))


def read_all(folder: Path) -> dict[str, np.ndarray]:
    found = {}
    for file in folder.glob("*.safetensors"):
        header = read_header(file)
        assert header.promised == header.size
        with safe_open(file, "numpy") as opened:
            assert opened.metadata() == {"format": "pt"}
            found |= {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (no mapping)
    return found


@pytest.mark.parametrize(("limit", "files"), [(1 << 20, 1), (83, 2), (1, 5)])
def test_what_is_written_is_read_back_whatever_the_shards(tmp_path: Path, limit: int, files: int) -> None:
    shards = plan_shards(ENTRIES, shard_bytes=limit)
    told: list[int] = []
    write_shards(tmp_path, shards, pieces, on_bytes=told.append)
    found = read_all(tmp_path)
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array), name
    assert len(shards) == files and sum(told) == total_bytes(shards) == 3 + 80 + 14 + 8
    index = tmp_path / "model.safetensors.index.json"
    assert index.is_file() == (files > 1)
    if files > 1:
        said = json.loads(index.read_text())
        assert said["weight_map"].keys() == ARRAYS.keys()
        assert said["metadata"] == {"total_size": 105, "total_parameters": 31}
        assert set(said["weight_map"].values()) == {p.name for p in tmp_path.glob("*.safetensors")}


@pytest.mark.parametrize("cut", [slice(1, None), slice(0, 0)])
def test_a_tensor_of_another_length_is_an_error(tmp_path: Path, cut: slice) -> None:
    def read(entry: Entry) -> Iterator[Piece]:
        raw = ARRAYS[entry.name].tobytes()
        yield raw[cut] if cut.start == 0 else raw + raw[:4]

    with pytest.raises(ValueError, match="bytes"):
        write_shards(tmp_path, plan_shards(ENTRIES[1:3]), read)


def test_an_error_of_one_tensor_stops_the_others(tmp_path: Path) -> None:
    failed = threading.Event()

    def read(entry: Entry) -> Iterator[Piece]:
        if entry.name == "bad":
            failed.set()
            raise OSError(errno.ENOSPC, "full")
        failed.wait(5)
        for _ in range(1 << 20):
            yield b"x"

    entries = [Entry(name=name, dtype="U8", shape=(1 << 20,)) for name in ("bad", "b", "c", "d")]
    with pytest.raises(OSError, match="full"):
        write_shards(tmp_path, plan_shards(entries), read)
    assert (tmp_path / "model.safetensors").stat().st_size < 3 << 20


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "out 导出\n"
    with whole_folder(target) as folder:
        (folder / "a").write_text("x")
        assert not target.exists() and folder.parent == tmp_path
    assert (target / "a").read_text() == "x" and [p.name for p in tmp_path.iterdir()] == [target.name]
    assert target.stat().st_mode & 0o777 == 0o755
    with pytest.raises(KeyError), whole_folder(tmp_path / "other") as folder:
        (folder / "a").write_text("x")
        raise KeyError
    assert [p.name for p in tmp_path.iterdir()] == [target.name]


def test_what_lies_there_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "full", "link"):
        with pytest.raises(Refused) as refused, whole_folder(tmp_path / name):
            pytest.fail("it was begun")
        assert [p.code for p in refused.value.problems] == ["output-exists"]
    (tmp_path / "empty").mkdir()
    with whole_folder(tmp_path / "empty") as folder:
        (folder / "a").write_text("x")
    assert (tmp_path / "empty" / "a").exists()
    with pytest.raises(Refused), whole_folder(tmp_path / "late"):
        (tmp_path / "late").mkdir()
        (tmp_path / "late" / "mine").write_text("mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "full", "late", "link"]


def test_what_a_killed_process_left_is_removed_and_what_is_being_written_stays(tmp_path: Path) -> None:
    target = tmp_path / "out"
    script = (
        "import sys, time, pathlib\nfrom zeroboard.checkpoints.whole import whole_folder\n"
        "with whole_folder(pathlib.Path(sys.argv[1])) as folder:\n"
        " (folder / 'a').write_text('x'); print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(target)], stdout=subprocess.PIPE, cwd=HOME) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        left = next(tmp_path.iterdir())
        with whole_folder(tmp_path / "out") as folder:
            assert left.exists() and folder != left
            (folder / "b").write_text("mine")
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert left.exists() and (target / "b").exists()
    with pytest.raises(KeyError), whole_folder(tmp_path / "another"):
        assert left.exists()
        raise KeyError
    (target / "b").unlink()
    with whole_folder(target):
        assert not left.exists()
