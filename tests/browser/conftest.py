"""A real dashboard and a real browser."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.ui.scripted import everything
from zeroboard.paths import Paths, RunPaths

ROOT = Path(__file__).resolve().parents[2]
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
READY = 90.0
"""Seconds in which the dashboard has to answer, on a machine that does other things as well."""


@dataclass
class Dashboard:
    """`python app.py` on a cache and a port of its own."""

    cache: Path
    port: int
    process: subprocess.Popen[bytes] | None = field(default=None)
    auth: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        env = {**os.environ, "ZEROBOARD_CACHE": str(self.cache)}
        if self.auth is not None:
            env["ZEROBOARD_AUTH"] = self.auth
        argv = [sys.executable, str(ROOT / "app.py"), "--port", str(self.port)]
        self.process = subprocess.Popen(argv, cwd=ROOT, env=env)
        until = time.monotonic() + READY
        while time.monotonic() < until:
            assert self.process.poll() is None, "the dashboard ended by itself"
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.2)
        raise AssertionError("the dashboard did not come up")

    def kill(self) -> None:
        """As a power cut would: no farewell."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def dashboard(paths: Paths) -> Iterator[Dashboard]:
    """On an empty cache; what a test left running of its runs is ended with it."""
    found = Dashboard(cache=paths.root, port=free_port())
    found.start()
    yield found
    found.kill()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        words = "no Chromium here: install Debian's package `chromium` (apt install chromium)"
        if os.environ.get("ZEROBOARD_REQUIRE_BROWSER") == "1":
            pytest.fail(words)
        pytest.skip(words)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page at 1280 px that fails the test when a script on it fails."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US")
    opened = context.new_page()
    broken: list[str] = []
    opened.on("pageerror", lambda error: broken.append(str(error)))
    yield opened
    context.close()
    assert broken == []


@pytest.fixture(scope="session")
def scripted_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunPaths]:
    """A run in each state, without an engine; read, or only added to."""
    return everything(tmp_path_factory.mktemp("scripted"))


@pytest.fixture(scope="session")
def scripted(scripted_runs: dict[str, RunPaths]) -> Iterator[Dashboard]:
    """A dashboard that shows them, one for all tests that need no cache of their own."""
    found = Dashboard(cache=scripted_runs["running"].folder.parent.parent, port=free_port())
    found.start()
    yield found
    found.kill()
