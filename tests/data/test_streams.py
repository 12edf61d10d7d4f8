"""Packed files are read as if they were not; damaged ones say so, and places without data are not opened."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

from tests.data.rows_of import alpaca, codes, turns
from zeroboard.data.judge import judge
from zeroboard.data.streams import open_stream, packing

ROWS = [alpaca(f"Answer {number} 中文") for number in range(500)]
TEXT = "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS).encode()


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
@pytest.mark.parametrize("form", ["lines", "array", "csv", "gb18030", "two"])
def test_packed_files_are_read_whatever_is_in_them(tmp_path: Path, pack: object, form: str) -> None:
    assert callable(pack)
    path = tmp_path / "rows.jsonl"
    table = "instruction,output\n" + "".join(f"{row['instruction']},{row['output']}\n" for row in ROWS)
    content = {
        "lines": pack(TEXT),
        "array": pack(json.dumps(ROWS).encode()),
        "csv": pack(table.encode()),
        "gb18030": pack(TEXT.decode().encode("gb18030")),
        "two": pack(TEXT[:2000]) + pack(TEXT[2000:]),
    }
    path.write_bytes(content[form])
    report = judge(path)
    assert (report.total, report.usable) == (500, 500)
    assert turns(path)[7][1] == ("assistant", ROWS[7]["output"])


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_packed_file_that_breaks_off_is_refused_whole(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    path = tmp_path / "d"
    chaos = "\n".join(json.dumps(alpaca(os.urandom(3000).hex())) for _ in range(800)).encode()
    whole = pack(chaos)
    path.write_bytes(whole[: len(whole) * 9 // 10])
    report = judge(path)
    assert report.usable == 0
    assert report.problems[0].code == "not-a-data-file" and "why" in report.problems[0].params
    codes(report)


def test_what_is_packed_is_looked_into(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl.gz"
    for content, code in ((b"%PDF-1.7", "not-a-data-file"), (b"", "empty-file"), (b"\0" * 5000, "not-a-data-file")):
        path.write_bytes(gzip.compress(content))
        assert codes(judge(path)) == {code: ()}


def test_how_far_it_is_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.write_bytes(b"x" * (1 << 20))
    told: list[float] = []
    with open_stream(path, on_progress=told.append) as stream:
        assert packing(path) is None and len(stream.read(1 << 19)) == 1 << 19
        assert 0.4 < told[-1] < 1.0
    assert told == sorted(told)


@pytest.mark.parametrize("place", ["/dev/zero", "/dev/null", "/proc/self/environ", "/proc/kmsg", "pipe", "link"])
def test_devices_pipes_and_files_of_the_system_are_not_opened(tmp_path: Path, place: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    report = judge(tmp_path / place)
    assert codes(report) == {"path-refused": ()} and report.usable == 0
