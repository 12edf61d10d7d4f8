"""Alerts about GPUs: when they appear, when they clear, and that what is missing raises none."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.diagnosis.run_of import GIB, GPUS, gpu, reading, spec
from zeroboard.contract.findings import Finding
from zeroboard.contract.readings import GpuReading, ProcessReading
from zeroboard.diagnosis.gpus import Gpus

OURS = ProcessReading(pid=100, memory=10 * GIB, ours=True)
OTHER = ProcessReading(pid=7, memory=20 * GIB)


def seen(
    state: Callable[[float], tuple[GpuReading, ...]],
    until: float,
    *,
    working: Callable[[float], bool] = lambda now: True,
    names: Mapping[int, str] | None = None,
    sets: tuple[str, ...] = (),
) -> dict[float, list[Finding]]:
    """A reading every 5 seconds → what is so after each."""
    gpus = Gpus(spec=spec(*sets), gpus=GPUS)
    found, now = {}, 0.0
    while now <= until:
        gpus.take(reading(now, *state(now)), working=working(now), names=names or {})
        found[now] = gpus.findings()
        now += 5.0
    return found


def span(found: dict[float, list[Finding]], code: str) -> tuple[float, float] | None:
    """The first and the last time at which it is there, without a gap between."""
    there = [now for now, findings in found.items() if any(f.code == code for f in findings)]
    if not there:
        return None
    assert there == [now for now in found if there[0] <= now <= there[-1]]
    return there[0], there[-1]


def test_gpus_that_are_well_raise_nothing() -> None:
    assert not any(seen(lambda now: (gpu(0), gpu(1)), 600).values())


def test_readings_that_are_missing_raise_nothing() -> None:
    nothing = {"memory_used": None, "memory_total": None, "utilization": None, "temperature": None, "power": None}
    assert not any(seen(lambda now: (gpu(0, throttle=None, processes=None, **nothing),), 600).values())
    assert not any(seen(lambda now: (), 600).values())


def test_heat_is_said_of_the_rank_on_that_gpu_after_half_a_minute_and_cleared_after_a_whole() -> None:
    found = seen(
        lambda now: (gpu(0), gpu(1, throttle=("thermal-software",) if 100 <= now < 200 else (), temperature=91.4)), 400
    )
    assert span(found, "gpu-throttled") == (130, 255)
    (finding,) = found[130]
    assert (finding.rank, finding.severity, finding.says) == (1, "warning", "finding.gpu-throttled")
    assert finding.params == {"gpu": 5, "temperature": 91, "power": 400}


def test_a_limit_of_power_is_only_told_and_gets_worse_when_the_hardware_throttles() -> None:
    found = seen(lambda now: (gpu(0, throttle=("power-cap",) if now < 100 else ("power-cap", "power-brake")),), 200)
    assert [(f.says, f.severity) for f in found[50]] == [("finding.gpu-throttled.power", "info")]
    assert [(f.says, f.severity) for f in found[100]] == [("finding.gpu-throttled.hardware", "warning")]


def test_clocks_that_somebody_set_are_no_alert() -> None:
    assert span(seen(lambda now: (gpu(0, throttle=("clocks-set", "sync-boost")),), 300), "gpu-throttled") is None


def test_a_full_memory_appears_above_95_and_clears_below_93_per_cent() -> None:
    def state(now: float) -> tuple[GpuReading, ...]:
        used = 0.96 if 50 <= now < 100 else 0.94 if now < 200 else 0.92
        return (gpu(0, memory_used=int(used * 80 * GIB)),)

    found = seen(state, 300, sets=("train.micro_batch=4", "train.accumulation=2"))
    assert span(found, "gpu-memory-full") == (60, 225)
    (finding,) = found[60]
    assert (finding.params["used"], finding.params["total"], finding.params["percent"]) == (76.8, 80.0, 96)
    assert finding.remedies[0].set == {"train.micro_batch": 2, "train.accumulation": 4}


def test_another_process_is_named_with_its_user_and_its_memory() -> None:
    found = seen(
        lambda now: (gpu(0, processes=(OURS, OTHER) if 20 <= now < 60 else (OURS,)),), 120, names={7: "eve: python"}
    )
    assert span(found, "gpu-foreign") == (30, 75)
    (finding,) = found[30]
    assert finding.params == {"gpu": 4, "pid": 7, "who": "eve: python", "memory": 20.0, "count": 1}


@pytest.mark.parametrize(("process", "alert"), [
    (ProcessReading(pid=7, memory=40 << 20), False),
    (ProcessReading(pid=7, memory=None), True),
])  # fmt: skip
def test_a_desktop_hurts_nobody(process: ProcessReading, alert: bool) -> None:
    assert (span(seen(lambda now: (gpu(0, processes=(OURS, process)),), 60), "gpu-foreign") is not None) is alert


def test_in_a_container_the_run_s_own_ranks_are_no_strangers() -> None:
    unknown = (ProcessReading(pid=4711, memory=39 * GIB),)
    assert span(seen(lambda now: (gpu(0, processes=unknown),), 60), "gpu-foreign") is None
    assert span(seen(lambda now: (gpu(0, processes=unknown),), 60, names={4711: "eve: python"}), "gpu-foreign")


def test_gpus_that_idle_for_minutes_are_said_once_with_the_four_hints_in_order() -> None:
    sets = ("zero.stage=2", "train.micro_batch=2", "train.accumulation=4", "zero.bucket_size=1000")
    found = seen(lambda now: (gpu(0, utilization=40.0), gpu(1, utilization=95.0)), 400, sets=sets)
    assert span(found, "gpu-idle") == (180, 400)
    (finding,) = found[180]
    assert (finding.rank, finding.params) == (None, {"gpus": "4", "percent": 40, "minutes": 3})
    assert [(r.says.removeprefix("remedy."), r.set) for r in finding.remedies] == [
        ("larger-batches", {"train.micro_batch": 4, "train.accumulation": 2}),
        ("overlap", {"zero.overlap_comm": True}),
        ("faster-network", None),
        ("larger-buckets", {"zero.bucket_size": 2000}),
    ]


def test_utilisation_around_the_edge_does_not_flicker() -> None:
    found = seen(lambda now: (gpu(0, utilization=78.0 if now < 300 else 82.0),), 900)
    assert span(found, "gpu-idle") == (180, 900)
    found = seen(lambda now: (gpu(0, utilization=70.0 if now < 300 else 99.0),), 900)
    times = span(found, "gpu-idle")
    assert times is not None and times[0] == 180 and 380 <= times[1] <= 400


def test_while_nothing_is_trained_gpus_may_idle() -> None:
    assert span(seen(lambda now: (gpu(0, utilization=0.0),), 900, working=lambda now: False), "gpu-idle") is None
    found = seen(lambda now: (gpu(0, utilization=95.0 if now % 100 < 50 else 0.0),), 900,
                 working=lambda now: now % 100 < 50)  # fmt: skip
    assert not any(found.values())


def test_a_gap_between_readings_tells_nothing_of_the_time_between() -> None:
    gpus = Gpus(spec=spec(), gpus=GPUS)
    for now in (0.0, 500.0, 1000.0, 1500.0):
        gpus.take(reading(now, gpu(0, utilization=1.0)), working=True, names={})
    assert gpus.findings() == []


def test_readings_that_are_read_again_change_nothing_and_without_any_nothing_is_known() -> None:
    gpus = Gpus(spec=spec(), gpus=GPUS)
    hot = gpu(0, throttle=("thermal-hardware",))
    for now in (0.0, 30.0):
        gpus.take(reading(now, hot), working=True, names={})
    found = gpus.findings()
    for now in (0.0, 25.0):
        gpus.take(reading(now, gpu(0)), working=True, names={})
    assert gpus.findings() == found and len(found) == 1
    gpus.forget()
    assert gpus.findings() == []
