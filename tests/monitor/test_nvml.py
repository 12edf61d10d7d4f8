"""NVML through the real binding, with a scripted library: what is missing is None and stops nobody."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zeroboard.contract.host import HostFacts
from zeroboard.monitor import host
from zeroboard.paths import Paths

SCRIPTED = Path(os.environ.get("FAKE_NVML_SOURCE", Path(__file__).resolve().parents[3] / "shared" / "nvml"))
"""Folder of the scripted library: `fake_nvml.c` and `scenarios/`; it is not part of this repository."""

Probe = Callable[[str], HostFacts]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = SCRIPTED / "fake_nvml.c"
    compiler = shutil.which("gcc")
    if not source.is_file():
        pytest.skip(f"the scripted NVML is not at {SCRIPTED} (set FAKE_NVML_SOURCE)")
    if compiler is None:
        pytest.skip("no gcc to build the scripted NVML with")
    target = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(target), str(source)], check=True)
    return target


@pytest.fixture
def probe(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Probe:
    """The host's facts under a scenario; the library is found by the child through its environment."""
    monkeypatch.setattr(host, "LIBRARY", str(library))

    def ask(scenario: str) -> HostFacts:
        environment = {
            **os.environ,
            "FAKE_NVML": str(SCRIPTED / "scenarios" / f"{scenario}.txt"),  # an absolute one stands for itself
            "LD_LIBRARY_PATH": str(library.parent),
        }

        def run(argv: list[str], **rest: Any) -> Any:
            return subprocess.run(argv, env=environment, **rest)

        return host.host_facts(Paths(tmp_path), run=run)

    return ask


def test_two_healthy_cards_tell_everything(probe: Probe) -> None:
    facts = probe("two_healthy")
    assert facts.nvml is None and facts.driver is not None
    first, second = facts.gpus
    assert (first.index, second.index) == (0, 1) and first.state == second.state == "ok"
    for gpu in facts.gpus:
        assert gpu.uuid is not None and gpu.uuid.startswith("GPU-") and gpu.name is not None
        assert gpu.memory_total is not None and gpu.memory_used is not None
        assert gpu.memory_total > gpu.memory_used
        assert gpu.utilization is not None and gpu.temperature is not None
        assert gpu.power is not None and 1 < gpu.power < 2000
        assert gpu.compute_capability is not None and gpu.processes is not None


@pytest.mark.parametrize(
    ("scenario", "key"),
    [("driver_not_loaded", "nvml.driver-not-loaded"), ("driver_mismatch", "nvml.driver-mismatch")],
)
def test_a_driver_that_does_not_answer_is_said_in_words(probe: Probe, scenario: str, key: str) -> None:
    facts = probe(scenario)
    assert facts.nvml == key and facts.gpus == ()


def test_a_driver_without_a_card_is_no_fault(probe: Probe) -> None:
    facts = probe("no_gpus")
    assert facts.nvml is None and facts.gpus == ()


def test_unified_memory_leaves_the_other_readings_alone(probe: Probe) -> None:
    (gpu,) = probe("unified_memory").gpus
    assert gpu.memory_shared is True and gpu.errors["memory"] == "NOT_SUPPORTED"
    assert gpu.temperature is not None and gpu.state == "ok"


def test_a_reading_that_is_not_supported_is_none_and_the_memory_is_still_told(probe: Probe) -> None:
    first, second = probe("utilization_not_supported").gpus
    assert first.utilization is None and first.errors["utilization"] == "NOT_SUPPORTED" and first.state == "ok"
    assert second.utilization is None and second.errors["utilization"] == "UNKNOWN" and second.state == "partly"
    assert first.memory_used is not None and second.memory_used is not None


def test_an_old_driver_answers_what_it_can(probe: Probe) -> None:
    facts = probe("old_driver")
    assert facts.gpus and all(gpu.memory_total is not None for gpu in facts.gpus)


def test_a_full_card_whose_processes_are_hidden_is_told_as_full(probe: Probe) -> None:
    gpus = probe("processes_unknown_memory").gpus
    assert any(p.memory is None for gpu in gpus for p in gpu.processes or ())


def test_a_lost_card_does_not_take_the_other_with_it(library: Path, tmp_path: Path, probe: Probe) -> None:
    text = (SCRIPTED / "scenarios" / "gpu_lost.txt").read_text().replace("after=40", "after=0")
    scenario = tmp_path / "lost.txt"
    scenario.write_text(text)
    facts = probe(str(scenario.with_suffix("")))
    states = {gpu.index: gpu.state for gpu in facts.gpus}
    assert states == {0: "ok", 1: "lost"}


def test_a_library_that_crashes_takes_nobody_down(probe: Probe, tmp_path: Path) -> None:
    scenario = tmp_path / "crash.txt"
    scenario.write_text((SCRIPTED / "scenarios" / "two_healthy.txt").read_text() + "\nabort fn=utilization gpu=1\n")
    assert probe(str(scenario.with_suffix(""))).nvml == "nvml.crashed"


def test_a_driver_that_hangs_is_given_up(probe: Probe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = tmp_path / "hang.txt"
    scenario.write_text((SCRIPTED / "scenarios" / "two_healthy.txt").read_text() + "\ndelay fn=utilization ms=60000\n")
    monkeypatch.setattr(host, "PROBE_TIMEOUT", 2.0)
    assert probe(str(scenario.with_suffix(""))).nvml == "nvml.hangs"
