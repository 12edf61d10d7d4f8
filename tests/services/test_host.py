"""The machine's facts as both faces ask for them: the poller's where one tells, measured where none does."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from zeroboard.contract import poller
from zeroboard.contract.host import GpuFacts, HostFacts
from zeroboard.paths import Paths
from zeroboard.runs.locks import device_lock
from zeroboard.services import host as hosts

TOLD = HostFacts(
    time=5.0, hostname="told", cpu_count=1, memory_total=9, memory_available=8, disk_total=7, disk_free=6,
    gpus=(GpuFacts(index=0, uuid="GPU-a", name="A"), GpuFacts(index=1, uuid="GPU-b", name="B")),
)  # fmt: skip


@pytest.fixture
def told(paths: Paths) -> Paths:
    """A cache whose poller told this just now."""
    paths.monitor.mkdir(parents=True)
    paths.now.write_text(TOLD.model_dump_json())
    return paths


def test_what_the_poller_tells_is_made_whole(told: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    lock = device_lock(told, "GPU-b")
    assert lock.take("some-run")
    facts = hosts.facts(told)
    lock.release()
    assert (facts.hostname, facts.gpus, facts.memory_available) == ("told", TOLD.gpus, 8)
    assert facts.packages["torch"] and facts.held == {"GPU-b": "some-run"}
    assert facts.visible is None and not facts.visible_guessed


def test_what_hides_devices_from_this_process_is_in_the_facts(told: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    facts = hosts.facts(told)
    assert facts.visible == ("GPU-b",) and facts.visible_guessed and len(facts.gpus) == 2
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert not hosts.facts(told).visible_guessed


def test_without_a_fresh_word_the_machine_is_measured(told: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = TOLD.model_copy(update={"hostname": "measured"})
    monkeypatch.setattr(hosts, "host_facts", lambda _: measured)
    assert hosts.facts(told).hostname == "told"
    assert hosts.measure(told).hostname == "measured"
    os.utime(told.now, (time.time() - poller.FRESH - 1,) * 2)
    assert hosts.watched(told) is None and hosts.facts(told).hostname == "measured"


def test_reading_what_is_told_costs_next_to_nothing(told: Paths) -> None:
    hosts.facts(told)
    begun = time.process_time()
    for _ in range(20):
        assert hosts.watched(told) is not None
    assert (time.process_time() - begun) / 20 < 0.01


def test_a_poller_is_started_once_and_only_where_there_is_a_cache(told: Paths, tmp_path: Path) -> None:
    started = []

    def popen(argv: list[str], **rest: object) -> subprocess.Popen[bytes]:
        started.append(argv)
        return subprocess.Popen(["true"], **rest)  # type: ignore[call-overload, no-any-return]

    assert hosts.ensure(told, popen=popen) and started == [poller.argv(told)]
    assert not hosts.ensure(Paths(tmp_path / "none"), popen=popen) and len(started) == 1
