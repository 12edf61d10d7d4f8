"""What torch, DeepSpeed, the compiler and pip say here: each asked once in a child process, then kept by version."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from zeroboard.contract.base import Record
from zeroboard.contract.host import HostFacts
from zeroboard.contract.requests import ToolchainRequest
from zeroboard.contract.toolchain import TOOLCHAIN_LAYOUT, Toolchain
from zeroboard.errors import EngineFailed, ZeroBoardError
from zeroboard.files import sha256_text, write_atomic
from zeroboard.monitor.host import packages
from zeroboard.paths import HOME, Paths
from zeroboard.runs import verbs

log = logging.getLogger(__name__)

READS = ("CXX", "CUDA_HOME", "CUDA_PATH", "CFLAGS", "LDFLAGS", "CPATH", "LIBRARY_PATH")
"""Variables that decide what can be compiled."""
PIP_PATIENCE = 120.0
"""Seconds that `pip check` may take."""
INSTALL_PATIENCE = 300.0
"""Seconds that pip may take to find out what an install would change; it asks the package index."""

_asked: dict[str, Toolchain] = {}
"""What this process has learned, so that several caches ask once."""


class Conflicts(Record):
    """What `pip check` said."""

    lines: tuple[str, ...]
    """A sentence of pip's for each package whose wishes are not met; empty: all are."""


_checked: dict[str, Conflicts] = {}
"""The same for what pip said."""


def known(paths: Paths, host: HostFacts) -> Toolchain | None:
    """What was asked before of these very versions; None where nobody has asked yet. Starts nothing."""
    key = _key(host)
    if key not in _asked:
        kept = _read(paths.toolchains / f"{key}.json")
        if kept is None:
            return None
        _asked[key] = kept
    return _asked[key]


def ask(paths: Paths, host: HostFacts) -> Toolchain | None:
    """What torch and DeepSpeed say; takes some seconds the first time. None where there is no torch to ask.

    Raises `EngineFailed` where torch itself cannot be imported.
    """
    found = known(paths, host)
    if found is None and "torch" in host.packages:
        device: Literal["cpu", "cuda"] = "cuda" if host.gpus else "cpu"
        answer = verbs.call("toolchain", ToolchainRequest(device=device), log_to=paths.logs / "toolchain.log")
        found = Toolchain.model_validate(answer.value)
        _asked[_key(host)] = found
        write_atomic(paths.toolchains / f"{_key(host)}.json", found.model_dump_json())
    return found


def conflicts(paths: Paths) -> tuple[str, ...] | None:
    """What `pip check` complains about, kept until something is installed or removed; None where pip is no help."""
    key = f"pip-{_installed()}"
    if key not in _checked:
        found = _kept(paths.toolchains / f"{key}.json") or _pip_check()
        if found is None:
            return None
        _checked[key] = found
        write_atomic(paths.toolchains / f"{key}.json", found.model_dump_json())
    return _checked[key].lines


def _kept(file: Path) -> Conflicts | None:
    try:
        return Conflicts.model_validate_json(file.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _pip_check() -> Conflicts | None:
    try:
        done = _pip("check", timeout=PIP_PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("pip check: %s", error)
        return None
    if done.returncode not in (0, 1):
        log.warning("pip check ended with %d: %s", done.returncode, done.stderr[-500:])
        return None
    # exit code 1 without a word on standard output is pip itself that failed
    lines = tuple(line.strip() for line in done.stdout.splitlines() if line.strip()) if done.returncode else ()
    if done.returncode and not lines:
        log.warning("pip check said nothing: %s", done.stderr[-500:])
        return None
    return Conflicts(lines=lines)


class Change(Record):
    """What an install would do to one package."""

    package: str
    before: str | None
    """None: it is not installed."""
    after: str


def would_change(wanted: tuple[str, ...]) -> tuple[Change, ...]:
    """What `pip install` of these requirements would change, without changing it; asks the package index.

    Raises `ZeroBoardError` with pip's own last words where it finds no solution, or no index.
    """
    try:
        done = _pip("install", "--dry-run", "--quiet", "--report", "-", *wanted, timeout=INSTALL_PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise ZeroBoardError("error.pip-failed", why=f"{INSTALL_PATIENCE:.0f} s") from error
    if done.returncode != 0:
        words = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise ZeroBoardError("error.pip-failed", why=(words or [f"exit code {done.returncode}"])[-1][:300])
    report: dict[str, Any] = json.loads(done.stdout)
    here = {name.lower(): version for name, version in packages(None).items()}
    changes = (
        Change(package=name, before=here.get(name.lower()), after=str(item["metadata"]["version"]))
        for item in report["install"]
        for name in [str(item["metadata"]["name"])]
    )
    return tuple(sorted(changes, key=lambda change: change.package.lower()))


def _pip(*words: str, timeout: float) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *words]
    return subprocess.run(
        argv, cwd=HOME, env=verbs.environment(None), capture_output=True, text=True, timeout=timeout, check=False
    )


def _key(host: HostFacts) -> str:
    """A name for what decides the answer: versions, compiler, Python, and what the environment says about compiling."""
    told = {
        "layout": TOOLCHAIN_LAYOUT,
        "python": sys.version,
        "compiler": host.compiler,
        "packages": {name: host.packages.get(name) for name in ("torch", "deepspeed")},
        "driver": host.driver,
        "gpus": bool(host.gpus),
        "environment": {name: os.environ.get(name) for name in READS},
    }
    return sha256_text(json.dumps(told, sort_keys=True))[:20]


def _installed() -> str:
    """A name for what is installed: the folder of packages changes with every install."""
    folder = Path(sysconfig.get_paths()["purelib"])
    return sha256_text(f"{folder} {folder.stat().st_mtime_ns}")[:20]


def _read(file: Path) -> Toolchain | None:
    try:
        return Toolchain.model_validate_json(file.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def ask_or_say(paths: Paths, host: HostFacts) -> tuple[Toolchain | None, str | None]:
    """What `ask` gives, or why it could not: for a face that shows one line for it."""
    try:
        return ask(paths, host), None
    except EngineFailed as error:
        lines = str(error.params.get("tail", "")).strip().splitlines()
        return None, lines[-1][:300] if lines else str(error)
