"""The poller: one a cache, there while it is wanted, and gone by itself."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fakes import nvml
from tests.monitor.conftest import Popen
from zeroboard.contract import poller as client
from zeroboard.contract.host import HostFacts
from zeroboard.monitor import host
from zeroboard.monitor.poller import Pace, poll
from zeroboard.paths import HOME, Paths

QUICK = Pace(interval=0.05, idle=0.4, take=0.2)
Meet = Callable[[Path], Popen]


@pytest.fixture
def cache(paths: Paths) -> Iterator[Paths]:
    """A cache whose poller, if there is one, leaves with the test."""
    paths.monitor.mkdir(parents=True)
    yield paths
    paths.wanted.unlink(missing_ok=True)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """No NVIDIA driver, whatever machine this is."""
    monkeypatch.setattr(host, "LIBRARY", "/none.so")


def start(paths: Paths, *more: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    paths.wanted.touch()
    return subprocess.Popen([*client.argv(paths), "--interval", "0.05", *more], cwd=HOME, env=env)


def wait(test: Callable[[], object], seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_it_tells_the_host_and_leaves_when_nobody_wants_it(cache: Paths, without: None) -> None:
    cache.wanted.touch()
    begun = time.monotonic()
    assert poll(cache, QUICK) == 0
    assert 0.3 < time.monotonic() - begun < 3
    told = client.fresh(cache)
    assert told is not None and told.nvml == "nvml.no-library" and told.gpus == ()
    assert told.time is not None and abs(told.time - time.time()) < 3 and told.cpu_percent is not None
    assert 0 < told.memory_available <= told.memory_total and told.disk_free > 0
    assert sorted(path.name for path in cache.monitor.iterdir()) == ["now.json", "poller.lock", "wanted"]
    assert cache.poller_lock.stat().st_mtime == 0  # so that the next client need not wait before it starts one


def test_it_stays_while_it_is_wanted_and_leaves_when_that_is_taken_back(cache: Paths, without: None) -> None:
    cache.wanted.touch()
    seen: list[int] = []

    def want() -> None:
        for _ in range(10):
            time.sleep(0.1)
            cache.wanted.touch()
            seen.append(cache.now.stat().st_mtime_ns)
        cache.wanted.unlink()

    client_thread = threading.Thread(target=want)
    client_thread.start()
    poll(cache, QUICK)
    client_thread.join()
    assert len(seen) == 10 and len(set(seen)) >= 8  # more than twice as long as it would have stayed by itself


def test_a_clock_that_is_set_back_keeps_it_no_longer(cache: Paths, without: None) -> None:
    cache.wanted.touch()
    os.utime(cache.wanted, (time.time() + 9999, time.time() + 9999))
    begun = time.monotonic()
    poll(cache, QUICK)
    assert time.monotonic() - begun < 3


def remove(path: Path) -> None:
    """A folder, as often as its poller puts a last file into it; or a file."""
    while path.exists():
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()


@pytest.mark.usefixtures("without")
@pytest.mark.parametrize("goes", ["cache", "lock"])
def test_it_leaves_with_its_cache_and_makes_nothing_anew(cache: Paths, goes: str) -> None:
    cache.wanted.touch()
    gone = cache.root if goes == "cache" else cache.poller_lock

    def act() -> None:
        wait(cache.now.exists)
        remove(gone)

    thread = threading.Thread(target=act)
    thread.start()
    begun = time.monotonic()
    poll(cache, Pace(interval=0.05))
    thread.join()
    assert time.monotonic() - begun < 5
    assert not gone.exists()


def test_a_place_that_takes_no_file_is_borne(cache: Paths, without: None, caplog: pytest.LogCaptureFixture) -> None:
    cache.now.mkdir()
    cache.wanted.touch()
    assert poll(cache, QUICK) == 0
    assert caplog.text.count("nothing could be told") == 1
    assert sorted(path.name for path in cache.monitor.iterdir()) == ["now.json", "poller.lock", "wanted"]


def test_a_crash_of_the_drivers_library_leaves_the_host_told(cache: Paths, meet: Meet) -> None:
    cache.wanted.touch()
    told: list[HostFacts] = []

    def look() -> None:
        until = time.monotonic() + 15
        while time.monotonic() < until and not {None, "nvml.crashed"} <= {facts.nvml for facts in told}:
            time.sleep(0.02)
            cache.wanted.touch()
            now = client.fresh(cache)
            told.extend([now] if now is not None else [])
        cache.wanted.unlink()

    thread = threading.Thread(target=look)
    thread.start()
    poll(cache, Pace(interval=0.05), popen=meet(nvml.scenario("crash")))
    thread.join()
    well = next(facts for facts in told if facts.nvml is None)
    assert [gpu.utilization for gpu in well.gpus] == [90, 90] and well.driver == "550.90.07"
    crashed = next(facts for facts in told if facts.nvml == "nvml.crashed")
    assert [gpu.uuid for gpu in crashed.gpus] == [gpu.uuid for gpu in well.gpus]
    assert crashed.memory_available > 0 and crashed.time is not None and crashed.time > (well.time or 0)
    assert not [p for p in psutil.Process().children() if "watch" in p.cmdline()]


def test_of_two_one_ends_at_once_and_a_signal_ends_the_other_with_its_child(cache: Paths, library: Path) -> None:
    environment = nvml.environment(library, nvml.scenario("two_healthy"))
    first = start(cache, env=environment)
    try:
        wait(cache.now.exists)
        children = psutil.Process(first.pid).children()
        assert len(children) == 1 and "watch" in children[0].cmdline()
        assert [gpu.utilization for gpu in (client.fresh(cache) or _none()).gpus] == [87, 0]
        assert start(cache, env=environment).wait(timeout=10) == 0
        assert first.poll() is None
        first.send_signal(signal.SIGTERM)
        assert first.wait(timeout=5) == 0
        wait(lambda: not psutil.pid_exists(children[0].pid))
    finally:
        first.kill()
        first.wait()


def _none() -> HostFacts:
    raise AssertionError("nothing was told")


def test_a_client_starts_one_and_others_find_it(cache: Paths) -> None:
    started: list[subprocess.Popen[Any]] = []

    def popen(argv: list[str], **rest: Any) -> subprocess.Popen[Any]:
        assert rest["start_new_session"] is True
        started.append(subprocess.Popen([*argv, "--interval", "0.05"], **rest))
        return started[-1]

    assert client.ensure(cache, popen) is True
    client.ensure(cache, popen)  # it takes the lock in a moment; nobody starts a second one meanwhile
    wait(lambda: client.fresh(cache) is not None)
    assert client.ensure(cache, popen) is True and len(started) == 1
    cache.wanted.unlink()
    wait(lambda: started[0].poll() is not None, 5)
    assert started[0].returncode == 0 and cache.poller_log.read_text() == ""
    assert client.ensure(cache, popen) is True and len(started) == 2  # at once, because the first one left in peace
    cache.wanted.unlink()
    wait(lambda: started[1].poll() is not None, 5)
