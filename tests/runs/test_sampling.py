"""Readings of a run: taken from what the poller tells, small however long the run is, and never in its way."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes import QUICK, make_run, popen
from zeroboard.contract import poller
from zeroboard.contract.host import GpuFacts, GpuProcess, HostFacts, MigSlice
from zeroboard.contract.readings import GpuReading, ProcessReading, Reading
from zeroboard.contract.requests import StopRequest
from zeroboard.contract.state import RunState
from zeroboard.files import write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs import sampling
from zeroboard.runs.context import Context, Timing
from zeroboard.runs.life import Life
from zeroboard.runs.processes import MARK, carries
from zeroboard.runs.registry import read_plan, read_state
from zeroboard.runs.sampling import Sampler, reading, thin
from zeroboard.runs.supervisor import supervise

HOST = HostFacts(
    time=1000.0, hostname="h", cpu_count=4, cpu_percent=12.5, memory_total=100, memory_available=60, disk_total=50,
    disk_free=20, shm_total=9, shm_free=8,
)  # fmt: skip
BUSY = GpuFacts(
    index=1, uuid="GPU-b", name="T", memory_total=1000, memory_used=900, utilization=97.0, memory_utilization=40.0,
    temperature=80.0, power=250.0, power_limit=300.0, clock_sm=1200, throttle=("power-cap",),
    processes=(GpuProcess(pid=7, user="u", command="c", memory=800), GpuProcess(pid=8)),
)  # fmt: skip
FREE = GpuFacts(index=0, uuid="GPU-a")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def run(paths: Paths) -> RunPaths:
    return make_run(paths)


def context(run: RunPaths, *devices: str, timing: Timing = QUICK) -> Context:
    plan = read_plan(run)
    assert plan.resolved is not None
    plan = plan.model_copy(update={"resolved": plan.resolved.model_copy(update={"gpus": devices})})
    state: RunState = read_state(run)
    return Context(run=run, plan=plan, life=Life(run, state), popen=started.append_popen, timing=timing)


class Started(list[list[str]]):
    def append_popen(self, argv: list[str], **rest: Any) -> subprocess.Popen[Any]:
        self.append(argv)
        return subprocess.Popen(["true"], **rest)


started = Started()


def tell(paths: Paths, facts: HostFacts) -> None:
    paths.monitor.mkdir(exist_ok=True)
    paths.now.write_text(facts.model_dump_json())


def kept(run: RunPaths) -> list[Reading]:
    return [Reading.model_validate_json(line) for line in run.readings.read_bytes().splitlines()]


def test_a_reading_is_of_the_runs_gpus_in_its_order_and_says_which_processes_are_its_own() -> None:
    host = HOST.model_copy(update={"gpus": (FREE, BUSY, FREE.model_copy(update={"uuid": "GPU-c"}))})
    found = reading(host, ("GPU-b", "GPU-a", "GPU-gone"), lambda pid: pid == 7)
    assert found == Reading(
        time=1000.0,
        gpus=(
            GpuReading(
                uuid="GPU-b", index=1, name="T", memory_used=900, memory_total=1000, utilization=97.0,
                memory_utilization=40.0, temperature=80.0, power=250.0, power_limit=300.0, clock_sm=1200,
                throttle=("power-cap",),
                processes=(ProcessReading(pid=7, memory=800, ours=True), ProcessReading(pid=8)),
            ),
            GpuReading(uuid="GPU-a", index=0),
        ),
        cpu_percent=12.5,
        memory_used=40,
        memory_total=100,
        disk_free=20,
        shm_free=8,
    )  # fmt: skip


def test_on_the_cpu_it_is_of_the_host_alone_and_a_driver_that_is_missing_is_no_word() -> None:
    host = HOST.model_copy(update={"gpus": (BUSY,), "nvml": "nvml.crashed"})
    assert reading(host, (), bool).gpus == () and reading(host, (), bool).nvml is None
    assert reading(host, ("GPU-b",), bool).nvml == "nvml.crashed"


def test_where_the_control_group_is_narrower_its_memory_counts() -> None:
    found = reading(HOST.model_copy(update={"memory_limit": 30, "memory_in_group": 25}), (), bool)
    assert (found.memory_used, found.memory_total) == (25, 30)


def test_of_a_slice_the_memory_is_its_own() -> None:
    part = MigSlice(uuid="MIG-1", name="T MIG", memory_total=20, memory_used=5)
    card = BUSY.model_copy(update={"mig": True, "slices": (part,)})
    (found,) = reading(HOST.model_copy(update={"gpus": (card,)}), ("MIG-1",), bool).gpus
    assert (found.uuid, found.name, found.memory_used, found.memory_total) == ("MIG-1", "T MIG", 5, 20)
    assert found.temperature == 80.0


def test_readings_are_taken_in_their_time_and_only_from_what_is_fresh(run: RunPaths, paths: Paths) -> None:
    clock = Clock()
    sampler = Sampler(context(run, "GPU-b", timing=Timing(sample=5.0)), clock=clock)
    started.clear()
    sampler.look()
    assert not run.readings.exists() and started == [poller.argv(paths)] and paths.wanted.exists()
    tell(paths, HOST.model_copy(update={"gpus": (BUSY,)}))
    clock.now += 0.9
    sampler.look()
    assert not run.readings.exists()
    clock.now += 0.2  # a second after nothing was told
    sampler.look()
    assert [gpu.uuid for gpu in kept(run)[0].gpus] == ["GPU-b"]
    for _ in range(20):
        sampler.look()
    assert len(kept(run)) == 1
    clock.now += 5.0
    sampler.look()
    assert len(kept(run)) == 2
    os.utime(paths.now, (time.time() - 60,) * 2)
    clock.now += 5.0
    sampler.look()
    assert len(kept(run)) == 2


def test_a_place_that_takes_nothing_is_borne_and_said_once(
    run: RunPaths, paths: Paths, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    sampler = Sampler(context(run), clock=clock)
    tell(paths, HOST)
    run.readings.mkdir()
    for _ in range(3):
        clock.now += 60
        sampler.look()
    assert caplog.text.count("could not be written") == 1
    run.readings.rmdir()
    clock.now += 60
    sampler.look()
    assert len(kept(run)) == 1


def test_a_long_run_keeps_its_whole_past_and_the_last_while_as_dense_as_it_was(run: RunPaths) -> None:
    lines = [Reading(time=float(n)).model_dump_json() for n in range(1000)]
    run.readings.write_text("".join(line + "\n" for line in lines))
    thin(run.readings, dense=100)
    times = [found.time for found in kept(run)]
    assert times[-100:] == [float(n) for n in range(900, 1000)]
    assert times[:-100] == [float(n) for n in range(0, 900, 2)]


def test_the_file_stays_under_its_limit(run: RunPaths, paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "LIMIT", 20_000)
    monkeypatch.setattr(poller, "ensure", lambda *_: True)
    monkeypatch.setattr(poller, "fresh", lambda _: HOST.model_copy(update={"time": clock.now, "gpus": (BUSY,)}))
    clock = Clock()
    sampler = Sampler(context(run, "GPU-b"), clock=clock)
    sizes = []
    for _ in range(400):
        clock.now += 10
        sampler.look()
        sizes.append(run.readings.stat().st_size)
    assert 10_000 < max(sizes) <= 20_000
    times = [found.time for found in kept(run)]
    assert times == sorted(times) and times[0] == 110.0 and times[-1] == clock.now


def test_a_supervisor_starts_the_poller_and_its_run_keeps_readings(paths: Paths) -> None:
    run = make_run(paths, "--steps", "1000", "--step-time", "0.02")

    def start(argv: list[str], **rest: Any) -> subprocess.Popen[Any]:
        return subprocess.Popen(argv, **rest) if argv == poller.argv(paths) else popen(argv, **rest)

    def stop() -> None:
        until = time.monotonic() + 20
        while not run.readings.exists() and time.monotonic() < until:
            time.sleep(0.02)
        write_atomic(run.stop_request, StopRequest(discard=True, time=time.time()).model_dump_json())

    stopper = threading.Thread(target=stop)
    stopper.start()
    assert supervise(run, popen=start, timing=QUICK) == 0
    stopper.join()
    state = read_state(run)
    assert state.state == "stopped" and state.started is not None and state.ended is not None
    found = kept(run)
    assert found and all(state.started <= one.time <= state.ended and one.memory_used for one in found)


@pytest.mark.parametrize(("namespace", "stranger"), [(sampling.FIRST_NAMESPACE, False), (4026532999, None)])
def test_a_number_that_names_nobody_is_a_strangers_only_where_the_driver_counts_as_we_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, namespace: int, stranger: bool | None
) -> None:
    (tmp_path / "7").mkdir()
    stat = Path.stat

    def told(path: Path, **rest: Any) -> Any:
        return SimpleNamespace(st_ino=namespace) if path == tmp_path / "self/ns/pid" else stat(path, **rest)

    monkeypatch.setattr(Path, "stat", told)
    monkeypatch.setattr(sampling, "carries", lambda pid, run_id: (pid, run_id) == (7, "a"))
    assert sampling.whose(7, "a", proc=tmp_path) is True
    assert sampling.whose(7, "b", proc=tmp_path) is False
    assert sampling.whose(8, "a", proc=tmp_path) is stranger


def test_the_mark_tells_whose_a_process_is() -> None:
    environment = {**os.environ, MARK: "this-run"}
    argv = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        assert carries(process.pid, "this-run") and not carries(process.pid, "this-run-2")
        process.communicate(b"\n")
    assert not carries(process.pid, "this-run") and not carries(os.getpid(), "this-run")
    assert not Path(f"/proc/{process.pid}").exists()
