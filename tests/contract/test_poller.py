"""The poller as its clients meet it: started once, believed while it is fresh, and never in anybody's way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import pytest

from zeroboard.contract import poller as client
from zeroboard.contract.host import HostFacts
from zeroboard.paths import Paths


@pytest.fixture
def cache(paths: Paths) -> Paths:
    paths.monitor.mkdir(parents=True)
    return paths


def test_one_that_cannot_live_is_not_started_again_and_again(cache: Paths) -> None:
    started = []

    def popen(argv: list[str], **rest: Any) -> subprocess.Popen[Any]:
        started.append(argv)
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"], **rest)

    assert [client.ensure(cache, popen) for _ in range(5)] == [True, False, False, False, False]
    assert started == [client.argv(cache)]
    os.utime(cache.poller_lock, (time.time() - client.AGAIN - 1,) * 2)
    assert client.ensure(cache, popen) is True and len(started) == 2


def test_nobody_makes_a_cache_by_looking(paths: Paths) -> None:
    def popen(*_: object, **__: object) -> subprocess.Popen[Any]:
        raise AssertionError("started")

    assert client.ensure(paths, popen) is False and not paths.root.exists()
    paths.root.mkdir(parents=True)
    paths.monitor.write_text("a file where the folder should be")
    assert client.ensure(paths, popen) is False
    assert client.fresh(paths) is None


def test_only_what_is_fresh_and_whole_is_told(cache: Paths) -> None:
    facts = HostFacts(hostname="h", cpu_count=1, memory_total=1, memory_available=1, disk_total=1, disk_free=1)
    assert client.fresh(cache) is None
    cache.now.write_text(facts.model_dump_json())
    assert client.fresh(cache) == facts
    for away in (-60, 60):
        os.utime(cache.now, (time.time() + away,) * 2)
        assert client.fresh(cache) is None
    cache.now.write_text('{"hostname": "half of i')
    assert client.fresh(cache) is None
