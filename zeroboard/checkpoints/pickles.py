"""Numbers and names out of a `.pt` file without executing it: its zip directory, and the pickle's opcodes one by one.

`pickletools.genops` only names opcodes; nothing is built and nothing is imported. Covered: `dp_world_size`,
`partition_count` and `zero_stage` as DeepSpeed writes them, a zip that was cut. Not covered: files in the format of
torch before 1.6.
"""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Collection
from pathlib import Path

PICKLE_LIMIT = 64 << 20
"""Bytes of the longest pickle that is looked through; tensors lie beside it in the zip, so it is small."""

_BETWEEN = frozenset(
    ("BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET", "GLOBAL", "STACK_GLOBAL", "EMPTY_LIST", "MARK")
)
"""What may stand between a key and its number; also the class of an enumeration, and the start of a list."""

_MEMO = frozenset(("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"))


def whole(path: Path) -> bool:
    """False for a zip without its end, as a save that was cut leaves it. Other formats cannot be told."""
    with path.open("rb") as stream:
        if stream.read(4) != b"PK\x03\x04":
            return True
    return zipfile.is_zipfile(path)


def numbers(path: Path, wanted: Collection[str]) -> dict[str, int]:
    """The first plain number after each of these keys of a dictionary; what is not found is left out.

    A file that cannot be read this way has no numbers; whether it is damaged is said by `whole`.
    """
    found: dict[str, int] = {}
    key: str | None = None
    try:
        for name, value in _opcodes(path):
            if isinstance(value, str) and name.endswith("UNICODE"):
                key = value if value in wanted and value not in found else None
            elif key is not None and name.startswith(("BININT", "INT", "LONG1")) and isinstance(value, int):
                found[key] = int(value)
                key = None
                if len(found) == len(wanted):
                    break
            elif name not in _BETWEEN:
                key = None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return found  # a foreign or broken file: what was found before the fault still stands
    return found


def globals_in(path: Path) -> frozenset[str] | None:
    """The classes and functions that the pickle would import: `module.name`. None where its opcodes cannot be read.

    A name that is put together while unpickling, out of texts that do not stand side by side, is `?`.
    """
    found: set[str] = set()
    texts: list[str] = []
    try:
        for name, value in _opcodes(path):
            if name in ("GLOBAL", "INST"):
                found.add(str(value).replace(" ", "."))
            elif name == "STACK_GLOBAL":
                found.add(".".join(texts[-2:]) if len(texts) > 1 else "?")
            if isinstance(value, str) and name.endswith(("UNICODE", "UNICODE8", "STRING")):
                texts.append(value)
            elif name not in _MEMO:
                texts.clear()
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return None  # a broken file has no names; whether it is damaged is said by `whole`
    return frozenset(found)


def _opcodes(path: Path) -> list[tuple[str, object]]:
    with zipfile.ZipFile(path) as archive:
        inside = next((i for i in archive.infolist() if i.filename.endswith("/data.pkl")), None)
        if inside is None or inside.file_size > PICKLE_LIMIT:
            return []
        data = archive.read(inside)
    return [(opcode.name, value) for opcode, value, _ in pickletools.genops(data)]
