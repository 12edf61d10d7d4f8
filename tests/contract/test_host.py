"""Facts about the machine: a reading that is missing is None, and never 0."""

from __future__ import annotations

from zeroboard.contract.host import GpuFacts, HostFacts


def test_a_gpu_that_tells_nothing_has_nothing_but_its_index() -> None:
    gpu = GpuFacts(index=3, state="lost", errors={"temperature": "GPU_IS_LOST"})
    readings = gpu.model_dump(exclude={"index", "state", "errors"})
    assert set(readings.values()) == {None}


def test_facts_come_back_from_their_json() -> None:
    host = HostFacts(
        hostname="h",
        gpus=(GpuFacts(index=0, uuid="GPU-0", processes=()),),
        cpu_count=2,
        memory_total=1,
        memory_available=1,
        disk_total=1,
        disk_free=1,
        held={"GPU-0": "run"},
    )
    assert HostFacts.model_validate_json(host.model_dump_json()) == host
    assert host.gpus[0].processes == () and GpuFacts(index=0).processes is None
