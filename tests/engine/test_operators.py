"""What building operators needs: no stale guard, and no space in the linker's folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch.utils import cpp_extension
from torch.utils.file_baton import FileBaton

from zeroboard.engine.operators import remove_stale_guards, spare_the_linker_spaces


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


def test_a_build_that_was_broken_off_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    stale, deep, held = (tmp_path / name / "lock" for name in ("cpu_adam", "py311_cpu/cpu_adam", "utils"))
    for guard in (stale, deep, held):
        guard.parent.mkdir(parents=True)
        guard.touch()
    other = FileBaton(str(tmp_path / "fused" / "lock"))
    (tmp_path / "fused").mkdir()
    assert other.try_acquire()
    with held.open():
        remove_stale_guards()
        assert (stale.exists(), deep.exists(), held.exists()) == (False, False, True)
        assert (tmp_path / "fused" / "lock").exists()  # torch's own builder keeps its guard open
    other.release()
