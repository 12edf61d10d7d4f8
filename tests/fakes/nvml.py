"""The scripted NVML: where it lies, how it is built, and which environment lets a process meet it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(os.environ.get("FAKE_NVML_SOURCE", Path(__file__).resolve().parents[3] / "shared" / "nvml"))
"""Its folder, with `fake_nvml.c` and `scenarios/`; it is not part of this repository."""
NAME = "libnvidia-ml.so.1"


def missing() -> str | None:
    """Why it cannot be built here; None where it can."""
    if not (SOURCE / "fake_nvml.c").is_file():
        return f"the scripted NVML is not at {SOURCE} (set FAKE_NVML_SOURCE): nothing about GPUs was tried"
    return None if shutil.which("gcc") else "no gcc to build the scripted NVML with: nothing about GPUs was tried"


def build(folder: Path) -> Path:
    """The library in this folder, made with gcc."""
    target = folder / NAME
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(target), str(SOURCE / "fake_nvml.c")], check=True)
    return target


def scenario(name: str) -> Path:
    return SOURCE / "scenarios" / f"{name}.txt"


def environment(library: Path, script: Path) -> dict[str, str]:
    """That of a process which is to find the library, and this script in it."""
    return {**os.environ, "FAKE_NVML": str(script), "LD_LIBRARY_PATH": str(library.parent)}
