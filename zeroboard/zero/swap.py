"""Is this folder one that states may be swapped to (NVMe offload)? One judgement for a brought file and for a spec."""

from __future__ import annotations

from pathlib import PurePosixPath

from zeroboard.contract.folders import FolderFacts
from zeroboard.contract.plan import Promise
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.contract.spec import ZeroSpec

IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
"""File systems that lie in the host's memory: what is swapped there saves nothing."""
SYSTEM = ("/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/boot", "/proc", "/sys", "/dev", "/run",
          "/var/lib", "/var/spool", "/var/log", "/var/cache")  # fmt: skip
"""Folders of the operating system, where no run has anything to write."""


def in_system(path: str) -> bool:
    """Whether a path leads into a folder of the operating system, or is the root itself."""
    parts = [part for part in PurePosixPath(path).parts if part not in ("/", ".")]
    kept: list[str] = []
    for part in parts:
        if part == "..":
            kept = kept[:-1]
        else:
            kept.append(part)
    if not path.startswith("/"):
        return False
    clean = PurePosixPath("/", *kept)
    return str(clean) == "/" or any(clean.is_relative_to(folder) for folder in SYSTEM)


def swapped_most(promise: Promise, zero: ZeroSpec, ranks: int) -> int:
    """Bytes that may lie in the folder, of as many ranks as swap there: those of one machine.

    What is promised, and with the optimizer's states the gradients that its step reads: fp32, and swapped as well.
    Those states are three numbers of fp32 for each trained element (see `promise`), so its gradient is a third of them.
    """
    gradients = promise.optimizer_bytes // 3 if zero.optimizer_device == "nvme" else 0
    return (promise.nvme_bytes + gradients) * ranks


def judge_swap(path: str, facts: FolderFacts | None, field: str, *, need: int | None = None) -> tuple[Problem, ...]:
    """What stands against swapping to a path. `facts` None: not looked at; `need` is in bytes (None: not known)."""
    if not path.strip():
        return (_problem("nvme-path", field, "none"),)
    params: dict[str, Scalar] = {"path": path[:200]}
    if in_system(path) and not PurePosixPath(path).is_relative_to("/dev/shm"):
        return (_problem("unsafe-path", field, "system", **params),)
    if facts is None:
        return ()
    if not facts.exists:
        return (_problem("nvme-path", field, "missing", **params),)
    found = []
    if facts.filesystem in IN_MEMORY:
        found.append(_problem("nvme-path", field, "memory", **params, filesystem=facts.filesystem))
    if not facts.writable:
        found.append(_problem("nvme-path", field, "closed", **params))
    elif facts.direct is False:
        found.append(_problem("nvme-path", field, "buffered", **params, filesystem=facts.filesystem or "?"))
    if need is not None and facts.free is not None and need > facts.free:
        found.append(_problem("nvme-path", field, "full", **params, need=_gib(need), free=_gib(facts.free)))
    return tuple(found)


def _problem(code: str, field: str, variant: str, **params: Scalar) -> Problem:
    return Problem(code=code, field=field, says=f"problem.{code}.{variant}", params=params)


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 1 << 28 else f"{size / 2**20:.1f} MiB"
