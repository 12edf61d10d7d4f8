"""Building operators where a folder's name holds a space."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch.utils import cpp_extension

from zeroboard.engine.sharding import spare_the_linker_spaces


def test_the_linker_is_given_a_name_of_torchs_libraries_without_spaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = tmp_path / "zero board" / "lib"
    libraries.mkdir(parents=True)
    monkeypatch.setattr(cpp_extension, "TORCH_LIB_PATH", str(libraries))
    monkeypatch.setattr(cpp_extension, "get_default_build_root", lambda: str(tmp_path / "built"))
    for _ in range(2):  # the second rank finds the link of the first
        monkeypatch.setattr(cpp_extension, "TORCH_LIB_PATH", str(libraries))
        spare_the_linker_spaces()
        assert " " not in cpp_extension.TORCH_LIB_PATH
        assert Path(cpp_extension.TORCH_LIB_PATH).resolve() == libraries.resolve()


def test_where_there_is_no_space_nothing_is_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp_extension, "TORCH_LIB_PATH", "/usr/lib/torch")
    monkeypatch.setattr(cpp_extension, "get_default_build_root", lambda: str(tmp_path / "built"))
    spare_the_linker_spaces()
    assert cpp_extension.TORCH_LIB_PATH == "/usr/lib/torch" and not (tmp_path / "built").exists()
