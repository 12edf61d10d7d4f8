"""Control groups, from files as the kernel writes them: version 1 and 2, in a container and out of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeroboard.monitor import cgroup
from zeroboard.monitor.cgroup import Limits, limits

GIB = 1 << 30
NONE = 9223372036854771712
"""What version 1 says where there is no limit."""


def put(root: Path, files: dict[str, object]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "self"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cgroup"


def test_version_2_takes_the_narrowest_group_above_us(root: Path, own: Path) -> None:
    own.write_text("0::/user.slice/job\n")
    put(
        root,
        {
            "user.slice/memory.max": 8 * GIB,
            "user.slice/memory.current": 5 * GIB,
            "user.slice/memory.stat": f"anon 1\ninactive_file {2 * GIB}\nactive_file 7",
            "user.slice/cpu.max": "max 100000",
            "user.slice/job/memory.max": "max",
            "user.slice/job/memory.current": 1,
            "user.slice/job/cpu.max": "150000 100000",
        },
    )
    assert limits(root, own) == Limits(memory=8 * GIB, used=3 * GIB, processors=1.5)


def test_a_container_that_sees_only_its_own_group_finds_its_limits_at_the_root(root: Path, own: Path) -> None:
    put(root, {"memory.max": GIB, "memory.current": 100, "memory.stat": "inactive_file 300", "cpu.max": "50000 100000"})
    for path in ("/", "/docker/0123", "/../../elsewhere"):
        own.write_text(f"0::{path}\n")
        assert limits(root, own) == Limits(memory=GIB, used=0, processors=0.5), path


def test_version_1_has_a_hierarchy_for_each_controller(root: Path, own: Path) -> None:
    own.write_text("5:memory:/docker/ab\n4:cpu,cpuacct:/docker/ab\n1:name=systemd:/\n0::/\n")
    put(
        root,
        {
            "memory/memory.limit_in_bytes": NONE,
            "memory/docker/ab/memory.limit_in_bytes": 4 * GIB,
            "memory/docker/ab/memory.usage_in_bytes": 3 * GIB,
            "memory/docker/ab/memory.stat": f"inactive_file 5\ntotal_inactive_file {GIB}",
            "cpu,cpuacct/cpu.cfs_quota_us": -1,
            "cpu,cpuacct/docker/ab/cpu.cfs_quota_us": 200000,
            "cpu,cpuacct/docker/ab/cpu.cfs_period_us": 100000,
            "memory.max": 1,  # of version 2, which does not rule here
        },
    )
    assert limits(root, own) == Limits(memory=4 * GIB, used=2 * GIB, processors=2.0)


def test_no_limit_is_none(root: Path, own: Path) -> None:
    own.write_text("0::/a\n")
    put(root, {"a/memory.max": "max", "a/memory.current": 5, "a/cpu.max": "max 100000"})
    assert limits(root, own) == Limits()
    own.write_text("2:memory:/\n3:cpu:/\n")
    put(root, {"memory/memory.limit_in_bytes": NONE, "cpu/cpu.cfs_quota_us": -1, "cpu/cpu.cfs_period_us": 100000})
    assert limits(root, own) == Limits()


def test_files_that_are_missing_or_odd_limit_nothing(root: Path, own: Path) -> None:
    assert limits(root, own) == Limits()
    own.write_text("nonsense\n0::/a\n")
    put(root, {"a/memory.max": "a lot", "a/cpu.max": "12", "memory.max": "\udcff".encode("utf-8", "replace").decode()})
    assert limits(root, own) == Limits()
    put(root, {"a/memory.max": GIB})
    assert limits(root, own) == Limits(memory=GIB)


def test_this_machine_is_read_without_a_word() -> None:
    found = limits()
    assert found.memory is None or 0 < found.memory < cgroup.UNLIMITED
    assert found.processors is None or found.processors > 0
