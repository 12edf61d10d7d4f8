"""Headers of safetensors files: sound ones are read, broken ones named."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from zeroboard.errors import BrokenFile
from zeroboard.headers import read_header
from zeroboard.messages import has


def write(path: Path, header: Any, data: bytes = b"", *, length: int | None = None) -> Path:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw) if length is None else length) + raw + data)
    return path


def tensor(start: int, end: int, shape: list[int], dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def test_a_file_that_the_library_wrote_is_read(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    path = tmp_path / "m.safetensors"
    save_file({"a": torch.zeros(3, 2), "b": torch.zeros(5, dtype=torch.bfloat16)}, path, {"format": "pt"})
    header = read_header(path)
    assert {name: (t.dtype, t.shape, t.elements) for name, t in header.tensors.items()} == {
        "a": ("F32", (3, 2), 6),
        "b": ("BF16", (5,), 5),
    }
    assert header.metadata == {"format": "pt"} and header.promised == header.size


def test_empty_and_scalar_tensors_are_no_fault(tmp_path: Path) -> None:
    header = read_header(write(tmp_path / "m", {"a": tensor(0, 0, [0]), "b": tensor(0, 4, [])}, bytes(4)))
    assert header.tensors["a"].elements == 0 and header.tensors["b"].elements == 1


def test_a_cut_file_is_seen_by_its_size(tmp_path: Path) -> None:
    header = read_header(write(tmp_path / "m", {"a": tensor(0, 8, [2])}, bytes(3)))
    assert header.promised - header.size == 5


@pytest.mark.parametrize(
    ("header", "data", "says"),
    [
        ({"a": tensor(0, 8, [3])}, bytes(8), "header.shape-mismatch"),
        ({"a": tensor(0, 8, [2]), "b": tensor(4, 12, [2])}, bytes(12), "header.overlap"),
        ({"a": tensor(0, 8, [2]), "b": tensor(12, 20, [2])}, bytes(20), "header.hole"),
        ({"a": tensor(8, 0, [2])}, bytes(8), "header.shape-mismatch"),
        ({"a": {"dtype": "F32", "shape": [2]}}, bytes(8), "header.bad-entry"),
        ({"a": tensor(0, 8, [-2])}, bytes(8), "header.bad-entry"),
        ({"a": tensor(0, 10**4299, [2], "F4")}, bytes(8), "header.bad-entry"),
        ({"a": tensor(0, 8, [10**4000, 10**4000], "F4")}, bytes(8), "header.bad-entry"),
        ({"a": "x"}, b"", "header.bad-entry"),
        ({"a": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}}, bytes(4), "header.bad-entry"),
        ([1, 2], b"", "header.not-json"),
        (b"{nope", b"", "header.not-json"),
        (b"\xff\xff", b"", "header.not-json"),
        (b"[" * 50_000, b"", "header.not-json"),
    ],
)
def test_a_header_that_contradicts_itself_is_broken(tmp_path: Path, header: Any, data: bytes, says: str) -> None:
    with pytest.raises(BrokenFile) as raised:
        read_header(write(tmp_path / "m", header, data))
    assert raised.value.says == says and raised.value.params["file"] == "m" and has(says)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "header.too-short"),
        (b"\x10\0\0", "header.too-short"),
        (struct.pack("<Q", 100) + b"{}", "header.cut"),
        (struct.pack("<Q", 2**60), "header.impossible-length"),
        (struct.pack("<Q", 0), "header.impossible-length"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "header.lfs-pointer"),
        (b"<!DOCTYPE html><html></html>", "header.html"),
    ],
)
def test_what_is_no_safetensors_file_is_named(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "m"
    path.write_bytes(content)
    with pytest.raises(BrokenFile) as raised:
        read_header(path)
    assert raised.value.says == says and has(says) and has(f"{says}.remedy", "zh-CN")


def test_a_tensor_name_that_appears_twice_is_refused(tmp_path: Path) -> None:
    raw = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    path = tmp_path / "twice.safetensors"
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + b"\0")
    with pytest.raises(BrokenFile, match=r"header\.not-json"):
        read_header(path)
