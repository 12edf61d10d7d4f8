"""DeepSpeed's operators are compiled where a run first needs one: what has to be right for that on any machine.

torch guards a build by a file that only its maker removes. A build that was killed (a stop, a lost machine) leaves it,
and every later run would wait for it without end: so a guard that no process holds open is taken away.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from pathlib import Path

import psutil
from torch.utils import cpp_extension

from zeroboard.files import sha256_text

log = logging.getLogger(__name__)


def ready_to_build(*, first: bool) -> None:
    """Before the process group stands up: no rank may build until the `first` one of the machine has tidied up."""
    if first:
        remove_stale_guards()
    spare_the_linker_spaces()


def build_root() -> Path:
    """Where torch builds: `TORCH_EXTENSIONS_DIR`, else its own folder in the user's cache."""
    return Path(os.environ.get("TORCH_EXTENSIONS_DIR") or cpp_extension.get_default_build_root())


def remove_stale_guards() -> None:
    """Remove the guards (`lock`) of builds that were broken off; one that a builder holds open stays.

    Looks one and two folders deep: torch puts a folder for its own version between, unless the place was chosen.
    """
    root = build_root()
    guards = [path for pattern in ("*/lock", "*/*/lock") for path in root.glob(pattern) if path.is_file()]
    if not guards:
        return
    held = _open_files()
    for guard in guards:
        if str(guard.resolve()) not in held:
            log.warning("removing %s, which a broken-off build left behind", guard)
            guard.unlink(missing_ok=True)


def _open_files() -> set[str]:
    """Every file that a process of ours has open; another user's build is not in our folder."""
    found: set[str] = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # it ended, or is not ours
            found.update(file.path for file in process.open_files())
    return found


def spare_the_linker_spaces() -> None:
    """Let operators be built where the environment lies in a folder whose name holds a space.

    torch 2.13 writes the folder of its libraries unquoted into the linker's command (`_prepare_ldflags`), so it is
    given another name for it: a link beside the operators that are built.
    """
    libraries = cpp_extension.TORCH_LIB_PATH
    if not re.search(r"\s", libraries):
        return
    link = Path(cpp_extension.get_default_build_root()) / f"torch-{sha256_text(libraries)[:12]}"
    link.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):  # another rank, or an earlier run
        link.symlink_to(libraries)
    cpp_extension.TORCH_LIB_PATH = str(link)
