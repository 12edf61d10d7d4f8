from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.checkpoints.folders import write_safetensors
from zeroboard.checkpoints import values
from zeroboard.checkpoints.values import Values, scan
from zeroboard.headers import read_header


def look(path: Path, array: np.ndarray[Any, Any], dtype: str = "F32") -> Values | None:
    write_safetensors(path, {"x": array}, dtype)
    with path.open("rb", buffering=0) as stream:
        return scan(stream, read_header(path).tensors["x"])


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
def test_the_first_bad_element_is_found_by_its_index(tmp_path: Path, bad: float) -> None:
    array = np.ones((7, 5), np.float32)
    array[3, 2] = bad
    array[6, 4] = bad
    assert look(tmp_path / "x", array) == Values(bad_at=17, constant=False, zero=False)


def test_a_bad_element_behind_the_first_chunk_has_its_whole_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "CHUNK", 64)
    array = np.arange(100, dtype=np.float32)
    array[77] = np.inf
    assert look(tmp_path / "x", array) == Values(bad_at=77, constant=False, zero=False)


@pytest.mark.parametrize(
    ("dtype", "kind", "largest", "infinite", "nan"),
    [
        ("F64", np.uint64, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF8000000000000),
        ("F32", np.uint32, 0x7F7FFFFF, 0x7F800000, 0xFFC00000),
        ("F16", np.uint16, 0x7BFF, 0x7C00, 0xFE00),
        ("BF16", np.uint16, 0x7F7F, 0x7F80, 0xFFC0),
        ("F8_E5M2", np.uint8, 0x7B, 0x7C, 0xFF),
        ("F8_E4M3", np.uint8, 0x7E, 0x7F, 0xFF),
    ],
)
def test_the_largest_number_of_each_type_is_finite_and_the_next_is_not(
    tmp_path: Path, dtype: str, kind: type[np.unsignedinteger[Any]], largest: int, infinite: int, nan: int
) -> None:
    sign = 1 << (np.dtype(kind).itemsize * 8 - 1)
    fine = look(tmp_path / "x", np.array([0, sign, largest, largest | sign], kind), dtype)
    assert fine is not None and fine.bad_at is None
    for bad in (infinite, nan):
        found = look(tmp_path / "x", np.array([0, largest, bad], kind), dtype)
        assert found is not None and found.bad_at == 2


def test_zeros_of_either_sign_are_zero(tmp_path: Path) -> None:
    found = look(tmp_path / "x", np.array([0.0, -0.0], np.float32))
    assert found == Values(bad_at=None, constant=False, zero=True)


def test_the_same_number_everywhere_is_constant(tmp_path: Path) -> None:
    assert look(tmp_path / "x", np.full((3, 3), 0.5, np.float32)) == Values(None, constant=True, zero=False)


def test_a_file_that_ends_early_is_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_safetensors(path, {"x": np.ones(100, np.float32)})
    tensor = read_header(path).tensors["x"]
    path.write_bytes(path.read_bytes()[:-50])
    with path.open("rb", buffering=0) as stream:
        assert scan(stream, tensor) is None
