"""What building operators needs: no stale guard, and no space in the linker's folder."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import pytest
from deepspeed.accelerator import get_accelerator
from torch.utils import cpp_extension
from torch.utils.file_baton import FileBaton

from zeroboard.engine import operators
from zeroboard.engine.operators import (
    compile_as_one,
    lock_all_that_may_be_locked,
    remove_stale_guards,
    spare_the_linker_spaces,
)


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


def test_the_operator_for_nvme_is_compiled_as_one_source_that_reads_each_header_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = get_accelerator().get_op_builder("AsyncIOBuilder")
    monkeypatch.setattr(kind, "sources", kind.sources)  # undone after the test
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    before = [Path(name).stem for name in kind().sources()]
    compile_as_one()
    (one,) = kind().sources()
    content = Path(one).read_text()
    assert Path(one).parent == tmp_path and len(before) == 12
    assert content.count("struct cpu_op_desc_t : io_op_desc_t") == 1
    assert not re.search(r'^#include "deepspeed_', content, re.MULTILINE)
    assert "#include <torch/extension.h>" in content


def test_sources_that_nobody_has_tried_as_one_are_compiled_as_deepspeed_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = get_accelerator().get_op_builder("AsyncIOBuilder")
    monkeypatch.setattr(kind, "sources", kind.sources)
    monkeypatch.setattr(operators, "KNOWN_SOURCES", "of another version")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    compile_as_one()
    assert len(kind().sources()) == 12 and not list(tmp_path.iterdir())


def test_memory_may_be_locked_up_to_the_hard_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda what: (1 << 16, 1 << 30))
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: asked.append(limits))
    lock_all_that_may_be_locked()
    assert asked == [(1 << 30, 1 << 30)]
