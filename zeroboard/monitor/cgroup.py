"""What this process's control group may use: memory and processor time, of cgroup version 1 or 2, whichever rules here.

Covered: a limit of any group above ours, several versions side by side, a container that sees only its own group.
Not covered: limits that the group's manager enforces by other means (Slurm without cgroups).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")

UNLIMITED = 1 << 60
"""Bytes from which a limit of version 1 stands for none: it says so with the largest multiple of a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of the narrowest group; None: there is no limit."""

    memory: int | None = None
    """Bytes."""
    used: int | None = None
    """Bytes that the group with that limit uses, less the page cache that the kernel would give back."""
    processors: float | None = None
    """Whole processors' worth of time."""


def limits(root: Path = ROOT, own: Path = OWN) -> Limits:
    """Read the limits; a file that is missing, or that cannot be read, limits nothing."""
    groups = _own_groups(own)
    memory, used = _memory(root, groups)
    return Limits(memory=memory, used=used, processors=_processors(root, groups))


def _own_groups(own: Path) -> dict[str, str]:
    """Controller → path of our group in its hierarchy; the key of version 2 is empty."""
    found: dict[str, str] = {}
    for line in (_text(own) or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            if controller or number == "0":
                found[controller] = path
    return found


def _levels(root: Path, path: str) -> Iterator[Path]:
    """The folders from our group up to the root, as far as they can be seen from here."""
    folder = root.joinpath(*(part for part in path.split("/") if part not in ("", "..")))
    while folder != root:
        if folder.is_dir():
            yield folder
        folder = folder.parent
    yield root


def _memory(root: Path, groups: dict[str, str]) -> tuple[int | None, int | None]:
    if "memory" in groups:
        limit, now, cache = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        levels = _levels(root / "memory", groups["memory"])
    else:
        limit, now, cache = "memory.max", "memory.current", "inactive_file"
        levels = _levels(root, groups.get("", "/"))
    known = [(size, folder) for folder in levels if (size := _number(folder / limit)) is not None and size < UNLIMITED]
    if not known:
        return None, None
    size, folder = min(known, key=lambda pair: pair[0])
    used = _number(folder / now)
    if used is None:
        return size, None
    return size, max(used - _field(folder / "memory.stat", cache), 0)


def _processors(root: Path, groups: dict[str, str]) -> float | None:
    if "cpu" in groups:
        mounted = next((root / name for name in ("cpu", "cpu,cpuacct") if (root / name).is_dir()), root / "cpu")
        pairs = [
            (_number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us"))
            for folder in _levels(mounted, groups["cpu"])
        ]
    else:
        pairs = [_quota(folder / "cpu.max") for folder in _levels(root, groups.get("", "/"))]
    shares = [quota / period for quota, period in pairs if quota is not None and quota > 0 and period]
    return min(shares, default=None)


def _quota(path: Path) -> tuple[int | None, int | None]:
    """`cpu.max` of version 2: quota and period in microseconds; the quota may be `max`."""
    parts = (_text(path) or "").split()
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        return None, None
    return int(parts[0]), int(parts[1])


def _field(path: Path, name: str) -> int:
    for line in (_text(path) or "").splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdecimal():
            return int(value)
    return 0


def _number(path: Path) -> int | None:
    text = (_text(path) or "").strip()
    return int(text) if text.removeprefix("-").isdecimal() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
