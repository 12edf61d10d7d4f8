"""DeepSpeed's operators are compiled where a run first needs one: what has to be right for that on any machine.

torch guards a build by a file that only its maker removes. A build that was killed (a stop, a lost machine) leaves it,
and every later run would wait for it without end: so a guard that no process holds open is taken away.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import resource
from pathlib import Path

import psutil
from deepspeed.accelerator import get_accelerator
from torch.utils import cpp_extension

from zeroboard.files import sha256_text, write_atomic

log = logging.getLogger(__name__)

INCLUDE = re.compile(r"""^#include [<"]([^">]+)[">]""", re.MULTILINE)
KNOWN_SOURCES = "8ca13243f4b16b08b391d48031ca439c39bf38fbfff2bcc56374ae828782824a"
"""The hash of async_io's sources in DeepSpeed 0.19.8, which compile as one."""
REPEATED = ("c_block_size", "c_io_queue_depth", "c_library_name")
"""Names that several of these sources define for themselves."""


def ready_to_build(*, first: bool) -> None:
    """Before the process group stands up: no rank may build until the `first` one of the machine has tidied up."""
    if first:
        remove_stale_guards()
    spare_the_linker_spaces()
    compile_as_one()
    lock_all_that_may_be_locked()


def lock_all_that_may_be_locked() -> None:
    """Raise the limit of locked memory as far as it goes: buffers for NVMe are locked, and the usual 8 MiB are few."""
    _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))


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


def compile_as_one() -> None:
    """Let async_io (reading and writing NVMe) be compiled as one source instead of twelve; on every rank alike.

    Nine of the twelve read all of torch's headers, which is half a minute of a processor each: together more than five
    minutes, of which the operator's own code is seconds. Sources that are not those that were tried so are left to
    DeepSpeed's own way.
    """
    kind = get_accelerator().get_op_builder("AsyncIOBuilder")
    if kind is None:
        return
    builder = kind()
    try:
        sources = [Path(builder.deepspeed_src_path(name)).absolute() for name in builder.sources()]
        content = "".join(path.read_text(encoding="utf-8") for path in sources)
    except OSError as error:  # another layout: its own builder will tell
        log.debug("the sources of async_io cannot be read: %s", error)
        return
    if sha256_text(content) != KNOWN_SOURCES:
        return
    folders = [Path(builder.deepspeed_src_path(place)) for place in builder.include_paths()]
    headers: dict[str, Path | None] = {path.name: path for folder in folders for path in folder.glob("*.h")}
    one = "".join(_apart(path, number, headers) for number, path in enumerate(sources))
    path = build_root() / f"async_io-{sha256_text(one)[:12]}.cpp"
    if not path.is_file():
        write_atomic(path, one)
    kind.sources = lambda self: [str(path)]


def _apart(source: Path, number: int, headers: dict[str, Path | None]) -> str:
    """A source as a part of a larger one: what it defines for itself gets a name that is its own."""
    renamed = "".join(f"#define {name} {name}_{number}\n" for name in REPEATED)
    ended = "".join(f"#undef {name}\n" for name in REPEATED)
    return f"{renamed}{_with_headers(source, headers)}\n{ended}"


def _with_headers(source: Path, headers: dict[str, Path | None]) -> str:
    """A file with the operator's own headers in the place of their names: nothing guards them, so each stands once.

    `headers`: by name; None for those that stand in the whole by now.
    """

    def inside(found: re.Match[str]) -> str:
        name = Path(found[1]).name
        if name not in headers:
            return found[0]
        header, headers[name] = headers[name], None
        return _with_headers(header, headers) if header is not None else ""

    return INCLUDE.sub(inside, source.read_text(encoding="utf-8"))
