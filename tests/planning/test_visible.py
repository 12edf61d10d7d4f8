"""CUDA_VISIBLE_DEVICES as CUDA's documentation describes it, told in UUIDs; and what it leaves a run."""

from __future__ import annotations

import pytest

from tests.planning import facts as make
from zeroboard.contract.host import GpuFacts, MigSlice
from zeroboard.paths import Paths
from zeroboard.planning.choices import choose_devices, usable_gpus
from zeroboard.planning.planner import make_plan
from zeroboard.planning.visible import guessed, hidden, visible, visible_gpus

A, B, C = (
    "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
    "GPU-8932aaaa-1111-4106-c12f-20bd9faed9f6",
    "GPU-5d1be2a7-4c10-4f7b-8f0e-6a31c05b7700",
)
FIRST, SECOND = "MIG-2a8f0d1c-7b55-5d2a-9a0e-1b7c44e0a000", "MIG-2a8f0d1c-7b55-5d2a-9a0e-1b7c44e0a001"
SLICES = (
    MigSlice(uuid=FIRST, name="MIG 3g.40gb", memory_total=40 << 30, memory_used=1 << 30),
    MigSlice(uuid=SECOND, name="MIG 2g.20gb", memory_total=20 << 30, memory_used=0),
)
GPUS = (
    GpuFacts(index=0, uuid=A, name="A100"),
    GpuFacts(index=1, uuid=B, name="A100"),
    GpuFacts(index=2, uuid=C, name="A100", memory_total=80 << 30, mig=True, slices=SLICES),
)


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("none", ()),
        ("0", (A,)),
        ("2,1", (C, B)),
        (" 1 , 0 ", (B, A)),
        ("+1", (B,)),
        ("1gpu,0x", (B, A)),
        ("0,2,-1,1", (A, C)),  # NVIDIA's own example: what stands after the invalid one is hidden
        ("0,7,1", (A,)),
        ("0,,1", (A,)),
        ("7,0", ()),
        ("0,1,0", ()),
        ("1,1", ()),
        (A, (A,)),
        (f"{C},{A}", (C, A)),
        ("GPU-8932f937", (A,)),
        ("GPU-5d,GPU-8932a", (C, B)),
        ("GPU-8932", ()),  # of two cards
        ("GPU-5d,GPU-8932,GPU-8932f", (C,)),
        ("GPU-ffff", ()),
        (f"{A},GPU-8932f", ()),  # the same card twice
        (f"{A},1", (A,)),  # the first entry says of what kind all are
        (f"1,{A}", (B,)),
        (FIRST, (FIRST,)),
        (f"{SECOND},{FIRST}", (SECOND, FIRST)),
        ("MIG-2a8f", ()),
        ("MIG-ffff", ()),
        (f"MIG-{C}/1/0", ()),  # which of two slices that is, NVML does not tell
    ],
)
def test_the_list_is_read_as_cuda_reads_it(said: str, seen: tuple[str, ...]) -> None:
    assert visible(GPUS, {"CUDA_VISIBLE_DEVICES": said}) == seen


def test_without_the_variable_nothing_is_hidden() -> None:
    assert visible(GPUS, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) is None
    host = make.host(GPUS[:2])
    assert visible_gpus(host) == GPUS[:2] and hidden(host) == 0


def test_the_old_name_of_a_slice_is_known_where_its_card_has_one() -> None:
    card = GPUS[2].model_copy(update={"slices": SLICES[:1]})
    assert visible([card], {"CUDA_VISIBLE_DEVICES": f"MIG-{C}/1/0"}) == (FIRST,)


@pytest.mark.parametrize(
    ("environment", "names", "unsure"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0"}, ("A100", "T4"), True),
        ({"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, ("A100", "T4"), False),
        ({"CUDA_VISIBLE_DEVICES": "0"}, ("A100", "A100"), False),
        ({"CUDA_VISIBLE_DEVICES": "GPU-0"}, ("A100", "T4"), False),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ("A100", "T4"), False),
        ({}, ("A100", "T4"), False),
    ],
)
def test_indices_among_unlike_cards_are_a_guess(
    environment: dict[str, str], names: tuple[str, ...], unsure: bool
) -> None:
    cards = [GpuFacts(index=n, uuid=f"GPU-{n}", name=name) for n, name in enumerate(names)]
    assert guessed(cards, environment) is unsure


def test_a_run_is_given_what_is_visible_in_that_order_and_is_told_so() -> None:
    host = make.host(4, visible=("GPU-3", "GPU-1"))
    devices = choose_devices(make.spec(), host)
    assert devices.names == ("GPU-3", "GPU-1")
    said = {d.says: d.params for d in devices.decisions}
    assert said["decision.gpus.visible"] == {"seen": 2, "found": 4} and "decision.gpus.order" not in said
    unsure = choose_devices(make.spec(), host.model_copy(update={"visible_guessed": True}))
    assert "decision.gpus.order" in {d.says for d in unsure.decisions}


def test_where_all_is_hidden_the_cpu_trains_and_says_why() -> None:
    devices = choose_devices(make.spec(), make.host(2, visible=()))
    assert devices.device == "cpu" and devices.decisions[0].says == "decision.device.hidden"
    assert choose_devices(make.spec(), make.host(0, visible=())).decisions[0].says == "decision.device.cpu"


def test_a_hidden_card_that_was_asked_for_is_named_as_hidden(paths: Paths) -> None:
    plan = make_plan(
        make.spec("devices.gpus=[GPU-0, GPU-9]"),
        host=make.host(2, visible=("GPU-1",)),
        paths=paths,
        model=None,
        data=None,
        tokens=None,
    )
    said = {p.params["uuid"]: p.says for p in plan.problems if p.code == "gpu-unavailable"}
    assert said == {"GPU-0": "problem.gpu-unavailable.hidden", "GPU-9": "problem.gpu-unavailable.unknown"}


def test_a_card_in_mig_mode_is_offered_by_its_slices_and_one_at_a_time() -> None:
    host = make.host((GPUS[2],))
    first, second = visible_gpus(host)
    assert (first.uuid, first.memory_total, second.name) == (FIRST, 40 << 30, "MIG 2g.20gb")
    assert [gpu.uuid for gpu in usable_gpus(host)] == [FIRST]
    assert choose_devices(make.spec(), host).names == (FIRST,)
    chosen = choose_devices(make.spec(f"devices.gpus=[{SECOND}, {FIRST}]"), host)
    assert chosen.names == (SECOND,) and chosen.ranks == 1
    assert "decision.gpus.slice" in {d.says for d in chosen.decisions}
    whole = choose_devices(make.spec(), make.host(GPUS))
    assert whole.names == (A, B)
