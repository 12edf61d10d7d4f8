"""NVML through the real binding, with a scripted library: what is missing is None and stops nobody."""

from __future__ import annotations

import os

import psutil
import pytest

from tests.fakes import nvml
from tests.monitor.conftest import Look
from zeroboard.contract.host import THROTTLES, GpuFacts

ONE = (
    'gpu 0 name="NVIDIA T" uuid=GPU-aa total=1000 used=10 util=1 temp=30 power=1000 limit=2000 sm=1 mem=2 throttle=0\n'
)


def test_two_healthy_cards_tell_everything(look: Look) -> None:
    (told,) = look("two_healthy")
    assert told.says is None and told.driver == "550.90.07"
    first, second = told.gpus
    assert first == GpuFacts(
        index=0,
        uuid="GPU-6b1f3a52-0c1d-4d7e-9a3b-51f0c2d8e901",
        name="NVIDIA H100 80GB HBM3",
        memory_total=85520809984,
        memory_used=41231686656,  # what the driver reserves is not among it
        memory_shared=False,
        utilization=87,
        memory_utilization=41,
        temperature=63,
        power=512.34,
        power_limit=700,
        clock_sm=1755,
        clock_sm_max=1980,
        clock_memory=2619,
        clock_memory_max=2619,
        throttle=(),
        processes=first.processes,
        compute_capability="9.0",
        mig=False,
    )
    assert first.processes is not None
    assert [(p.pid, p.memory) for p in first.processes] == [(4242, 41229942784)]
    assert second.state == "ok" and second.processes == () and second.throttle == ()  # idle is no throttling


def test_eight_cards_say_why_they_are_slow_and_who_is_on_them(look: Look) -> None:
    gpus = look("eight_gpus")[0].gpus
    assert len({gpu.uuid for gpu in gpus}) == 8 and {gpu.state for gpu in gpus} == {"ok"}
    throttled = {gpu.index: gpu.throttle for gpu in gpus if gpu.throttle}
    assert throttled == {2: ("thermal-software",), 3: ("power-cap",), 5: ("thermal-hardware",)}
    assert [p.pid for p in gpus[6].processes or ()] == [990]


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (0x8, {"hardware-slowdown"}),
        (0x10, {"sync-boost"}),
        (0x80, {"power-brake"}),
        (0x2 | 0x100, {"clocks-set"}),
        (0x4 | 0x20 | 0x1, {"power-cap", "thermal-software"}),
    ],
)
def test_every_reason_of_the_mask_has_a_word(look: Look, mask: int, words: set[str]) -> None:
    (gpu,) = look(ONE.replace("throttle=0", f"throttle={mask:#x}"))[0].gpus
    assert gpu.throttle is not None and set(gpu.throttle) == words <= set(THROTTLES)


@pytest.mark.parametrize(
    ("scenario", "key"),
    [
        ("driver_not_loaded", "nvml.driver-not-loaded"),
        ("driver_mismatch", "nvml.driver-mismatch"),
        ("fault fn=init code=4\n", "nvml.no-permission"),
        ("fault fn=init code=999\n", "nvml.failed"),
        ("gpu 0 total=5\nfault fn=count code=999\n", "nvml.failed"),
    ],
)
def test_a_driver_that_does_not_answer_is_said_in_words(look: Look, scenario: str, key: str) -> None:
    (told,) = look(scenario)
    assert told.says == key and told.gpus == ()


def test_a_driver_that_comes_back_is_seen(look: Look) -> None:
    first, second = look("fault fn=init code=9\n", 2, between=ONE)
    assert first.says == "nvml.driver-not-loaded"
    assert second.says is None and [gpu.uuid for gpu in second.gpus] == ["GPU-aa"]


def test_a_driver_without_a_card_is_no_fault(look: Look) -> None:
    (told,) = look("no_gpus")
    assert told.says is None and told.gpus == ()


def test_unified_memory_is_the_hosts_and_leaves_the_other_readings_alone(look: Look) -> None:
    (gpu,) = look("unified_memory")[0].gpus
    assert gpu.memory_shared is True and gpu.errors["memory"] == "NOT_SUPPORTED" and gpu.state == "ok"
    assert gpu.memory_total == psutil.virtual_memory().total and (gpu.memory_used or 0) < gpu.memory_total
    assert (gpu.temperature, gpu.power, gpu.power_limit, gpu.clock_sm) == (41, 11.8, None, 2405)
    assert [(p.pid, p.memory) for p in gpu.processes or ()] == [(2301, None)]


def test_a_reading_that_is_not_supported_is_none_and_the_memory_is_still_told(look: Look) -> None:
    for told in look("utilization_not_supported", 3):
        first, second = told.gpus
        assert first.utilization is None and first.errors["utilization"] == "NOT_SUPPORTED" and first.state == "ok"
        assert second.utilization is None and second.errors["utilization"] == "UNKNOWN" and second.state == "partly"
        assert (first.memory_used, second.memory_used) == (1610612736, 905969664)
        assert first.processes is None and second.processes is None and first.throttle is None


def test_an_old_driver_answers_what_it_can(look: Look) -> None:
    for told in look("old_driver", 2):
        (gpu,) = told.gpus
        assert (gpu.memory_total, gpu.memory_used, gpu.memory_shared) == (16914055168, 3221225472, False)
        assert gpu.mig is None and gpu.processes is None and gpu.state == "ok"
        assert gpu.errors["processes"] == gpu.errors["mig"] == "FUNCTION_NOT_FOUND"


def test_processes_without_memory_and_memory_without_processes(look: Look) -> None:
    first, second = look("processes_unknown_memory")[0].gpus
    assert [(p.pid, p.memory) for p in first.processes or ()] == [(612, None), (4711, None)]
    assert second.processes == () and second.memory_used == 21474836480


def test_a_process_that_computes_and_draws_is_one(look: Look) -> None:
    (gpu,) = look(ONE.replace(" util", " procs=5:100,6:? graphics=5:300,7:20 util"))[0].gpus
    assert [(p.pid, p.memory) for p in gpu.processes or ()] == [(5, 300), (6, None), (7, 20)]


def test_a_process_of_this_machine_has_a_user_and_a_command(look: Look) -> None:
    (gpu,) = look(ONE.replace(" util", f" procs={os.getpid()}:100 util"))[0].gpus
    assert gpu.processes is not None
    assert gpu.processes[0].user == psutil.Process().username()
    assert gpu.processes[0].command == " ".join(psutil.Process().cmdline())[:200]


def test_in_mig_mode_the_slices_are_told_with_their_processes(look: Look) -> None:
    first, second = look("mig_on")[0].gpus
    assert first.mig is True and second.mig is False and second.slices is None
    assert first.slices is not None
    assert [(s.uuid, s.memory_total, s.memory_used) for s in first.slices] == [
        ("MIG-2a8f0d1c-7b55-5d2a-9a0e-1b7c44e0a000", 42949672960, 12884901888),
        ("MIG-2a8f0d1c-7b55-5d2a-9a0e-1b7c44e0a001", 20937965568, 13107200),
    ]
    assert first.slices[1].name is not None and first.slices[1].name.endswith("MIG 2g.20gb")
    assert first.utilization is None and first.temperature == 52 and first.state == "ok"
    assert [(p.pid, p.memory) for p in first.processes or ()] == [(7001, 12876513280)]


def test_a_card_that_is_lost_keeps_its_name_and_takes_no_other_with_it(look_anew: Look) -> None:
    told = look_anew("gpu_lost", 40)
    states = [gpus[1].state for gpus in (t.gpus for t in told)]
    assert states[0] == "ok" and states[-1] == "lost"
    assert {t.gpus[0].state for t in told} == {"ok"} and told[-1].gpus[0].utilization == 95
    gone = told[-1].gpus[1]
    assert gone.uuid == "GPU-7e5b2d48-1f0c-4c55-b1d3-90a1f7c3aa01" and gone.name == "NVIDIA A100-PCIE-40GB"
    assert gone.memory_used is None and "GPU_IS_LOST" in gone.errors.values()


def test_a_card_that_was_reset_is_seen_again(look_anew: Look) -> None:
    two = ONE + ONE.replace("gpu 0", "gpu 1").replace("GPU-aa", "GPU-bb")
    told = look_anew(two + "fault gpu=1 fn=* code=15 after=40 until=80\n", 90)
    states = [t.gpus[1].state for t in told]
    assert "lost" in states and states[0] == states[-1] == "ok"


def test_a_hiccup_passes(look_anew: Look) -> None:
    told = [t.gpus[0] for t in look_anew("recovers", 6)]
    assert any(gpu.state == "partly" for gpu in told)
    last = told[-1]
    assert (last.state, last.errors, last.name) == ("ok", {"mig": "NOT_SUPPORTED"} | last.errors, "NVIDIA RTX A5000")
    assert last.utilization == 50 and last.uuid is not None and "UNKNOWN" not in last.errors.values()


def test_what_does_not_change_is_not_asked_again(look: Look, tmp_path_factory: pytest.TempPathFactory) -> None:
    changed = ONE.replace('"NVIDIA T"', '"Another"').replace("util=1", "util=99")
    first, second = (t.gpus[0] for t in look(ONE, 2, between=changed))
    assert (first.name, second.name) == ("NVIDIA T", "NVIDIA T")
    assert (first.utilization, second.utilization) == (1, 99)


def test_the_clock_of_the_memory_is_asked_for_now_and_then(look: Look) -> None:
    told = [t.gpus[0] for t in look(ONE, 7, between=ONE.replace("sm=1 mem=2", "sm=7 mem=9"))]
    assert [gpu.clock_sm for gpu in told] == [1, 7, 7, 7, 7, 7, 7]
    assert [gpu.clock_memory for gpu in told] == [2, 2, 2, 2, 2, 9, 9]


def test_every_scenario_is_looked_at(look: Look) -> None:
    elsewhere = {"crash", "hanging_driver", "slow_driver", "gpu_lost", "recovers"}  # those count, or take their time
    names = {path.stem for path in nvml.SOURCE.glob("scenarios/*.txt")}
    assert elsewhere < names
    for name in sorted(names - elsewhere):
        (told,) = look(name)
        assert told.says is not None or all(gpu.uuid and gpu.state in ("ok", "partly") for gpu in told.gpus), name
