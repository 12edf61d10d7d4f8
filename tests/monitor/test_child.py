"""The child that asks NVML: whatever becomes of it, something is told, and a new one is started."""

from __future__ import annotations

import select
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import nvml
from tests.monitor.conftest import Popen
from zeroboard.contract.host import GpuFacts
from zeroboard.monitor import child as children
from zeroboard.monitor import host
from zeroboard.monitor.child import Child, Patience
from zeroboard.monitor.told import Probe

QUICK = Patience(first=20.0, hang=0.4, back_off=0.05, healthy=60.0)
Meet = Callable[[Path], Popen]


def follow(child: Child, enough: Callable[[Probe | None], bool], *, seconds: float = 15.0) -> list[Probe]:
    """Keep it as the poller does until it told what is waited for: what was told on the way, each change once."""
    seen: list[Probe] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        child.tend()
        if child.stream is None:
            time.sleep(0.01)
        elif select.select([child.stream], [], [], 0.01)[0]:
            child.hear()
        told = child.told()
        if told is not None and (not seen or seen[-1] != told):
            seen.append(told)
        if enough(told):
            return seen
    raise AssertionError(seen)


@pytest.fixture
def keep(meet: Meet) -> Iterator[Callable[[Path], Child]]:
    kept: list[Child] = []

    def start(script: Path, interval: float = 0.02, patience: Patience = QUICK) -> Child:
        kept.append(Child(interval, patience, popen=meet(script)))
        return kept[-1]

    yield start
    for child in kept:
        child.end()


def says(key: str | None) -> Callable[[Probe | None], bool]:
    return lambda told: told is not None and told.says == key


def test_one_that_crashes_is_started_again_and_the_cards_stay_known(keep: Callable[[Path], Child]) -> None:
    child = keep(nvml.scenario("crash"))
    assert child.told() is None
    well = follow(child, says(None))[-1].gpus
    crashed = follow(child, says("nvml.crashed"))[-1]
    assert crashed.driver == "550.90.07"
    for before, after in zip(well, crashed.gpus, strict=True):
        assert (after.uuid, after.memory_total, after.state) == (before.uuid, before.memory_total, "partly")
        assert before.utilization == 90 and after.utilization is None and after.memory_used is None
    again = follow(child, says(None))
    assert [told.says for told in again if told.says] == ["nvml.crashed", "nvml.restarting"]
    assert again[-1].gpus == well


def test_one_that_hangs_is_ended_and_started_again(keep: Callable[[Path], Child]) -> None:
    child = keep(nvml.scenario("hanging_driver"))
    assert follow(child, says(None))[-1].gpus[0].memory_used == 9663676416
    process = child._process
    assert process is not None
    follow(child, says("nvml.hangs"))
    assert process.poll() == -9
    assert follow(child, says(None))[-1].gpus[0].state == "ok"


def test_a_slow_driver_is_waited_for(keep: Callable[..., Child], tmp_path: Path) -> None:
    script = tmp_path / "slow.txt"
    script.write_text(nvml.scenario("slow_driver").read_text().replace("ms=3000", "ms=300"))
    child = keep(script)
    until = time.monotonic() + 1.5
    seen = follow(child, lambda told: time.monotonic() > until and told is not None)
    assert {told.says for told in seen} == {None} and seen[-1].gpus[0].utilization == 3


def test_a_driver_that_was_updated_is_said_and_nobody_is_ended_for_it(keep: Callable[[Path], Child]) -> None:
    child = keep(nvml.scenario("driver_mismatch"))
    follow(child, says("nvml.driver-mismatch"))
    process = child._process
    until = time.monotonic() + 0.6
    follow(child, lambda _: time.monotonic() > until)
    assert child._process is process and process is not None and process.poll() is None


def test_where_there_is_no_library_there_is_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "LIBRARY", "/none.so")

    def popen(*_: object, **__: object) -> None:
        raise AssertionError("started")

    child = Child(0.01, QUICK, popen=popen)
    assert follow(child, says("nvml.no-library"))[-1].gpus == () and child.stream is None


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Popen]:
    """A shell in the child's place."""
    monkeypatch.setattr(children, "has_library", lambda: True)
    return lambda script: lambda argv, **rest: subprocess.Popen(["sh", "-c", script], **rest)


def line(*gpus: GpuFacts, says: str | None = None) -> str:
    return Probe(gpus=gpus, says=says).model_dump_json(exclude_defaults=True)


def test_words_that_nobody_understands_are_a_crash(scripted: Callable[[str], Popen]) -> None:
    child = Child(0.01, QUICK, popen=scripted("echo nonsense; sleep 9"))
    assert follow(child, says("nvml.crashed"))[-1].gpus == ()
    child.end()


def test_half_a_line_is_waited_for_and_the_last_whole_one_counts(scripted: Callable[[str], Popen]) -> None:
    one, two = line(GpuFacts(index=0, uuid="GPU-1")), line(GpuFacts(index=0, uuid="GPU-2"))
    script = f"printf '%s\\n%s\\n%s' '{one}' '{two}' '{{\"gpus\"'; sleep 0.2; printf ':[]}}\\n'; sleep 9"
    child = Child(0.01, QUICK, popen=scripted(script))
    seen = follow(child, lambda told: told is not None and not told.gpus)
    assert [[gpu.uuid for gpu in told.gpus] for told in seen] == [["GPU-2"], []]
    child.end()


def test_the_waiting_grows_while_it_keeps_ending_and_has_an_end(scripted: Callable[[str], Popen]) -> None:
    starts: list[float] = []

    def popen(argv: list[str], **rest: object) -> subprocess.Popen[bytes]:
        starts.append(time.monotonic())
        return scripted("exit 1")(argv, **rest)

    child = Child(0.01, Patience(back_off=0.02, most=0.08), popen=popen)
    until = time.monotonic() + 0.6
    follow(child, lambda _: time.monotonic() > until)
    waits = [after - before for before, after in pairwise(starts)]
    assert 4 <= len(starts) <= 9 and waits[0] >= 0.02 and waits[1] >= 0.04 and min(waits[2:]) >= 0.08


def test_one_that_not_even_sigkill_ends_keeps_nobody_waiting_and_gets_no_second_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(children, "has_library", lambda: True)

    class Stuck(subprocess.Popen[bytes]):
        """As if it were in the middle of a call into the kernel."""

        def kill(self) -> None:
            return

    started: list[Stuck] = []

    def popen(argv: list[str], **rest: Any) -> Stuck:
        started.append(Stuck(["sh", "-c", f"echo '{line()}'; exec sleep 60"], **rest))
        return started[-1]

    patience = Patience(hang=0.1, kill=0.1, back_off=0.02, most=0.02)
    child = Child(0.01, patience, popen=popen)
    follow(child, says(None))
    begun = time.monotonic()
    follow(child, says("nvml.hangs"))
    assert time.monotonic() - begun < 2
    until = time.monotonic() + 0.2
    follow(child, lambda _: time.monotonic() > until)
    assert len(started) == 1
    subprocess.Popen.kill(started[0])
    follow(child, says(None))
    assert len(started) == 2 and started[0].poll() is not None
    subprocess.Popen.kill(started[1])
    child.end()


def test_one_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "has_library", lambda: True)
    tries = []

    def popen(*_: object, **__: object) -> subprocess.Popen[bytes]:
        tries.append(1)
        if len(tries) < 3:
            raise BlockingIOError("too many processes")
        return subprocess.Popen(["sh", "-c", f"echo '{line()}'; sleep 9"], stdout=subprocess.PIPE)

    child = Child(0.01, QUICK, popen=popen)
    assert follow(child, says(None))[0].says == "nvml.restarting" and len(tries) == 3
    child.end()
