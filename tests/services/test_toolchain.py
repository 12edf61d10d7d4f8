"""torch, DeepSpeed, the compiler and pip are asked in children, once for each set of versions."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from zeroboard.contract.requests import Answer
from zeroboard.contract.toolchain import Toolchain
from zeroboard.errors import EngineFailed, ZeroBoardError
from zeroboard.monitor.host import host_facts, packages
from zeroboard.paths import Paths
from zeroboard.runs import verbs
from zeroboard.services import toolchain


def test_torch_and_deepspeed_are_asked_once_and_what_they_said_is_kept(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = host_facts(paths)
    monkeypatch.setattr(toolchain, "_asked", {})
    assert toolchain.known(paths, host) is None
    found = toolchain.ask(paths, host)
    assert found is not None and found.torch == packages()["torch"] and found.deepspeed == packages()["deepspeed"]
    assert set(found.ops) == {"cpu_adam", "async_io"}
    if host.compiler is not None:
        assert found.compiles and found.ops["cpu_adam"].compatible, found
    monkeypatch.setattr(toolchain, "_asked", {})
    monkeypatch.setattr(verbs, "call", None)  # whoever asks again fails
    assert toolchain.ask(paths, host) == found
    other = host.model_copy(update={"packages": {**host.packages, "torch": "2.99"}})
    assert toolchain.known(paths, other) is None


def test_a_torch_that_does_not_import_is_told_by_its_last_words(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any, **rest: Any) -> Answer:
        raise EngineFailed(
            "error.engine-failed", verb="toolchain", code=1, tail="Traceback\nImportError: libcudart.so.13"
        )

    host = host_facts(paths).model_copy(update={"driver": "1.2"})
    monkeypatch.setattr(verbs, "call", fails)
    assert toolchain.ask_or_say(paths, host) == (None, "ImportError: libcudart.so.13")


def test_nothing_is_asked_where_there_is_no_torch(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "call", None)
    assert toolchain.ask(paths, host_facts(paths).model_copy(update={"packages": {}})) is None


def pip(code: int, out: str, err: str = "") -> Any:
    return lambda *words, timeout: subprocess.CompletedProcess(words, code, out, err)


@pytest.mark.parametrize(
    ("code", "out", "lines"),
    [
        (0, "No broken requirements found.\n", ()),
        (1, "a 1 requires b, which is not installed.\n", ("a 1 requires b, which is not installed.",)),
        (1, "", None),
        (2, "usage", None),
    ],
)
def test_pip_check_is_read_and_a_pip_that_fails_is_no_answer(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, code: int, out: str, lines: Any
) -> None:
    monkeypatch.setattr(toolchain, "_checked", {})
    monkeypatch.setattr(toolchain, "_pip", pip(code, out))
    assert toolchain.conflicts(paths) == lines
    monkeypatch.setattr(toolchain, "_checked", {})
    monkeypatch.setattr(toolchain, "_pip", pip(1, "another\n"))
    assert toolchain.conflicts(paths) == (lines if lines is not None else ("another",))  # an answer is kept


def test_what_an_install_would_change_is_read_from_pips_report(monkeypatch: pytest.MonkeyPatch) -> None:
    version = packages()["torch"]
    report = {"install": [{"metadata": {"name": n, "version": "99"}} for n in ("torch", "no-such-package")]}
    monkeypatch.setattr(toolchain, "_pip", pip(0, json.dumps(report)))
    assert [(c.package, c.before, c.after) for c in toolchain.would_change(("torch>=99",))] == [
        ("no-such-package", None, "99"),
        ("torch", version, "99"),
    ]
    monkeypatch.setattr(
        toolchain, "_pip", pip(1, "", "WARNING: x\nERROR: No matching distribution found for torch>=99\n")
    )
    with pytest.raises(ZeroBoardError) as failed:
        toolchain.would_change(("torch>=99",))
    assert "No matching distribution" in str(failed.value.params["why"])


def test_a_build_without_compiler_or_headers_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from zeroboard.engine.toolchain import compiles

    monkeypatch.setenv("CXX", str(tmp_path / "no-compiler"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert compiles() == "no C++ compiler"
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\necho 'zb.cpp:1:10: fatal error: Python.h: No such file or directory' >&2; exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    assert "Python.h" in str(compiles())


def test_an_answer_of_another_layout_is_asked_again(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    host = host_facts(paths).model_copy(update={"driver": "another"})
    monkeypatch.setattr(toolchain, "_asked", {})
    paths.toolchains.mkdir(parents=True)
    (paths.toolchains / f"{toolchain._key(host)}.json").write_text("{}")
    assert toolchain.known(paths, host) is None
    value = Toolchain(torch="1").model_dump(mode="json")
    monkeypatch.setattr(verbs, "call", lambda *args, **rest: Answer(value=value))
    assert toolchain.ask(paths, host) == Toolchain(torch="1")
