"""The scripted NVML for the tests of this room: built once, looked at by one process, met by others through `popen`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import ROOT, nvml
from zeroboard.monitor import host
from zeroboard.monitor.told import Probe

Look = Callable[..., list[Probe]]
Popen = Callable[..., "subprocess.Popen[Any]"]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    reason = nvml.missing()
    if reason is not None:
        pytest.skip(reason)
    return nvml.build(tmp_path_factory.mktemp("nvml"))


@contextmanager
def looking(library: Path, folder: Path) -> Iterator[Look]:
    """A process that looks at scripts: what the gate tells of each (by its name, or as a text), look after look."""
    argv = [sys.executable, "-m", "tests.fakes.looker"]
    environment = nvml.environment(library, nvml.scenario("no_gpus"))
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True) as process:

        def ask(scenario: str, looks: int = 1, *, between: str | None = None) -> list[Probe]:
            script = nvml.scenario(scenario)
            if "\n" in scenario:
                script = folder / "script.txt"
                script.write_text(scenario)
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps({"script": str(script), "looks": looks, "between": between}) + "\n")
            process.stdin.flush()
            return [Probe.model_validate(told) for told in json.loads(process.stdout.readline())]

        yield ask


@pytest.fixture(scope="session")
def look(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    """One process for all tests."""
    with looking(library, tmp_path_factory.mktemp("scripts")) as ask:
        yield ask


@pytest.fixture
def look_anew(library: Path, tmp_path: Path) -> Iterator[Look]:
    """A process of its own: for scripts that count the questions, which is done in each process."""
    with looking(library, tmp_path) as ask:
        yield ask


@pytest.fixture
def meet(library: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Popen]:
    """Makes a `popen` whose children meet this script; our own process only finds that there is a library."""
    monkeypatch.setattr(host, "LIBRARY", str(library))

    def make(script: Path) -> Popen:
        return lambda argv, **rest: subprocess.Popen(argv, env=nvml.environment(library, script), **rest)

    return make
