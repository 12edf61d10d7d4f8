"""The machine's panel: what is missing is n/a, who holds the memory is told apart, and nothing changes its height."""

from __future__ import annotations

import re

import pytest

from tests.ui.test_views import HOST, whole
from zeroboard.contract.host import THROTTLES, GpuFacts, GpuProcess, HostFacts, MigSlice
from zeroboard.contract.readings import GpuReading, Reading
from zeroboard.messages import LANGUAGES
from zeroboard.ui.panels.form import gpu_choices
from zeroboard.ui.views import gpus, header
from zeroboard.ui.views.machine import Beside

GIB = 1 << 30
BARE = GpuFacts(index=0, uuid="GPU-a", name="NVIDIA H100", memory_total=80 * GIB)
BUSY = GpuFacts(
    index=0, uuid="GPU-a", name="NVIDIA H100", memory_total=80 * GIB, memory_used=78 * GIB, utilization=90.0,
    memory_utilization=40.0, temperature=71.0, power=310.0, power_limit=700.0, clock_sm=1400, clock_sm_max=1980,
    clock_memory=2619, throttle=("thermal-hardware",), mig=False,
    processes=(
        GpuProcess(pid=11, memory=60 * GIB, user="ann", command="python train.py"),
        GpuProcess(pid=12, memory=16 * GIB),
    ),
)  # fmt: skip
LOST = GpuFacts(index=1, uuid="GPU-b", state="lost", errors={"memory": "GPU_IS_LOST"})


def with_gpus(*found: GpuFacts, **more: object) -> HostFacts:
    return HOST.model_copy(update={"gpus": found, **more})


def history(busy: float, seconds: int = 300) -> tuple[Reading, ...]:
    cards = (GpuReading(uuid="GPU-a", index=0, utilization=busy),)
    return tuple(Reading(time=1000.0 + at, gpus=cards) for at in range(0, seconds, 5))


def test_a_reading_that_is_missing_is_not_drawn_as_zero() -> None:
    page = whole(gpus.cards(with_gpus(BARE), "en"))
    # memory used; utilisation, temperature, power, two clocks, traffic, MIG, throttle, processes; CPU and /dev/shm
    assert page.count("n/a") == 12
    assert " 0 %" not in page and ">0 %" not in page
    pair = with_gpus(BARE, BARE, driver="580")
    assert header.machine(pair, None, "en").startswith("2 × H100")


def test_every_card_has_the_same_rows_whatever_it_says() -> None:
    sliced = BARE.model_copy(update={"mig": True, "slices": (MigSlice(name="2g.20gb", memory_total=GIB),)})
    shapes = set()
    for gpu in (BARE, BUSY, LOST, sliced):
        page = whole(gpus.cards(with_gpus(gpu), "en", Beside(ours=frozenset({11}), mine=frozenset({"GPU-a"}))))
        card = page[page.index("zb-gpu") :]
        shapes.add((card.count("<dt>"), card.count("zb-reading"), card.count("zb-alerts"), card.count("zb-who")))
    assert shapes == {(9, 2, 1, 1)}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_card_names_its_processes_and_the_run_that_holds_it(lang: str) -> None:
    host = with_gpus(BUSY, LOST, held={"GPU-a": "20261129-run"})
    page = whole(gpus.cards(host, lang))  # type: ignore[arg-type]
    for word in ("?run=20261129-run", "11", "ann", "python train.py", "2619"):
        assert word in page
    labels = gpu_choices(host, ["GPU-a", "GPU-z"], "en")
    assert [uuid for _, uuid in labels][-1] == "GPU-z"
    assert "2.0 GiB free" in labels[0][0] and "20261129-run" in labels[0][0]
    assert "not on this machine" in labels[-1][0]


def test_who_holds_the_memory_is_told_apart_in_shape_and_word() -> None:
    page = whole(gpus.cards(with_gpus(BUSY), "en", Beside(ours=frozenset({11}))))
    assert 'class="ours" style="width:75.00%"' in page
    assert 'class="others" style="width:20.00%"' in page
    assert "runs 60.0 GiB · others 16.0 GiB · not told 2.0 GiB · free 2.0 GiB" in page


def test_alerts_name_strangers_full_memory_throttling_and_idle_gpus() -> None:
    beside = Beside(ours=frozenset({11}), mine=frozenset({"GPU-a"}), training=True, history=history(40.0))
    page = whole(gpus.cards(with_gpus(BUSY), "en", beside))
    told = re.findall(r"</span>([^<]*)</span>", page[page.index("zb-alerts") :])
    assert told == ["other process", "memory over 95 %", "throttled", "40 % busy"]
    assert 'title="Mean utilisation of the last 3 minutes"' in page
    calm = BUSY.model_copy(update={"memory_used": GIB, "throttle": ("clocks-set",), "processes": BUSY.processes[:1]})  # type: ignore[index]
    quiet = Beside(ours=frozenset({11}), mine=frozenset({"GPU-a"}), training=True, history=history(93.0))
    assert "zb-badge" not in gpus.cards(with_gpus(calm), "en", quiet)
    early = Beside(ours=frozenset({11}), mine=frozenset({"GPU-a"}), training=True, history=history(40.0, 60))
    assert "% busy" not in gpus.cards(with_gpus(calm), "en", early)  # a minute says nothing yet


@pytest.mark.parametrize("lang", LANGUAGES)
def test_each_reason_of_throttling_has_its_words(lang: str) -> None:
    for reason in THROTTLES:
        page = whole(gpus.cards(with_gpus(BUSY.model_copy(update={"throttle": (reason,)})), lang))  # type: ignore[arg-type]
        assert f"gpu.throttle.{reason}" not in page and reason not in page


def test_a_driver_that_does_not_answer_is_told_with_what_to_do() -> None:
    page = whole(gpus.cards(HOST.model_copy(update={"nvml": "nvml.driver-mismatch"}), "en"))
    assert "was updated" in page and "Restart the machine" in page
    assert "zb-gpu-trouble" not in gpus.cards(HOST.model_copy(update={"nvml": "nvml.no-library"}), "en")


def test_a_container_shows_its_own_limits_and_says_so() -> None:
    inside = HOST.model_copy(update={"memory_limit": 4 * GIB, "memory_in_group": GIB, "cpu_limit": 1.5})
    page = whole(gpus.cards(inside, "en"))
    assert "1.0 GiB of 4.0 GiB" in page and "the machine has 8.0 GiB" in page
    assert "1.5 cores allowed" in page


def test_unified_memory_is_called_what_it_is() -> None:
    assert "shared with the host" in gpus.cards(with_gpus(BARE.model_copy(update={"memory_shared": True})), "en")
