"""The folder that runs are written into, as it is before they are: really tried, not only asked about."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from zeroboard.contract.folders import FolderFacts
from zeroboard.monitor.folders import folder_facts
from zeroboard.paths import Paths


def output_folder(paths: Paths, *, tried: bool = True) -> FolderFacts:
    """The facts of the folder of the runs, or of the nearest one above it that is there.

    Rights alone do not tell whether a file can be made (a read-only or full file system, an administrator), so one is
    (`tried`), and removed.
    """
    folder = next(p for p in (paths.runs.absolute(), *paths.runs.absolute().parents) if p.exists())
    facts = folder_facts(str(folder))
    return facts.model_copy(update={"path": str(folder), "writable": facts.writable and (not tried or _takes(folder))})


def _takes(folder: Path) -> bool:
    try:
        handle, name = tempfile.mkstemp(prefix=".zeroboard-", dir=folder)
    except OSError:
        return False
    os.close(handle)
    Path(name).unlink()
    return True
