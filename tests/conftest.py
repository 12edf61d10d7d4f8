"""Fixtures that every room uses, and what holds for all tests: no hub, no settings from outside, no silent skipping."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from filelock import FileLock

from zeroboard.catalogue import MODELS
from zeroboard.contract.schema import Schema
from zeroboard.paths import HOME, Paths
from zeroboard.runs.processes import kill_marked
from zeroboard.services import configs
from zeroboard.services.models import prepare_model

# before any test imports a library that reads it: nothing here may ask a hub
os.environ["HF_HUB_OFFLINE"] = "1"
# nor may torch's threads spin while they wait: the processes of the test run share the cores
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
for name in ("ZEROBOARD_CACHE", "ZEROBOARD_AUTH"):
    os.environ.pop(name, None)

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NO_CHROMIUM = "No Chromium here, so no page was tried: install the Debian package chromium (apt install chromium)."


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without Chromium the browser tests are skipped loudly, or refused where they must not be missing."""
    browser = [item for item in items if item.get_closest_marker("browser")]
    if CHROMIUM is None and browser:
        if os.environ.get("ZEROBOARD_REQUIRE_BROWSER") == "1":
            raise pytest.UsageError(NO_CHROMIUM)
        for item in browser:
            item.add_marker(pytest.mark.skip(reason=NO_CHROMIUM))


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the browser; only for tests that are marked `browser`."""
    assert CHROMIUM is not None
    return CHROMIUM


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[Paths]:
    """A cache of its own; whatever a test left running of its runs is ended."""
    made = Paths(tmp_path / "cache")
    yield made
    for folder in made.runs.glob("*") if made.runs.is_dir() else ():
        kill_marked(folder.name)
    if made.monitor.is_dir():
        made.wanted.unlink(missing_ok=True)


@pytest.fixture(scope="session", autouse=True)
def nobody_polls_on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A poller leaves by itself half a minute after its last client; after the last test it leaves at once."""
    yield
    for depth in ("*", "*/*", "*/*/*"):
        for wanted in tmp_path_factory.getbasetemp().glob(f"{depth}/monitor/wanted"):
            wanted.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny Llama with its tokenizer; read only, shared by all tests."""
    # here, not at the top: torch is needed only where the fixture is, and most rooms are tested without it
    from tests.tiny import tiny_model

    return tiny_model(tmp_path_factory.mktemp("tiny") / "tiny-llama")


@pytest.fixture(scope="session")
def tiny_data_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 rows in Alpaca's form; read only, shared by all tests."""
    from tests.tiny import tiny_data

    return tiny_data(tmp_path_factory.mktemp("tiny") / "data.jsonl")


@pytest.fixture(scope="session")
def bundled(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> tuple[Path, list[float | None]]:
    """The bundled model as `prepare_model` makes it, and the progress that was told; converted once for all tests."""
    if find_spec(MODELS[0].module) is None:
        pytest.skip(f"the package {MODELS[0].package} is not installed")
    # one for all processes of the test run: converting takes half a minute
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "bundled-model"
    said = folder / "progress.json"
    with FileLock(f"{folder}.lock"):
        if not said.is_file():
            told: list[float | None] = []
            prepare_model(Paths(folder), MODELS[0].name, on_progress=lambda at: told.append(at.done))
            said.write_text(json.dumps(told))
    return Paths(folder).models / MODELS[0].name, json.loads(said.read_text())


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """All of `tests.engine.zero_checkpoints`, made once for all processes of the test run; read only."""
    base = tmp_path_factory.getbasetemp()
    root = (base if worker_id == "master" else base.parent) / "zero-checkpoints"
    made = root / "made"
    with FileLock(f"{root}.lock"):
        if not made.is_file():
            environ = os.environ | {"OMP_NUM_THREADS": "1"}
            argv = [sys.executable, "-m", "tests.engine.zero_checkpoints", str(root)]
            done = subprocess.run(argv, cwd=HOME, env=environ, capture_output=True, text=True, timeout=180, check=False)
            assert done.returncode == 0, done.stderr[-4000:]
            made.touch()
    return root


@pytest.fixture(scope="session")
def schema_cache(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A cache folder in which the installed DeepSpeed's schema was asked for once, for all tests; read only."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "schema-cache"
    with FileLock(f"{folder}.lock"):
        configs.schema(Paths(folder))
    return folder


@pytest.fixture(scope="session")
def schema(schema_cache: Path) -> Schema:
    """What the installed DeepSpeed reads."""
    return configs.schema(Paths(schema_cache))
