"""What was noticed and measured before the end explains a root cause, and only that which it concerns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.run_of import GIB, GPUS, gpu, reading
from tests.diagnosis.test_facts import error, state
from tests.diagnosis.told import found, raised
from zeroboard.contract.findings import Evidence, Finding
from zeroboard.contract.problems import Problem
from zeroboard.contract.readings import ProcessReading, Reading
from zeroboard.contract.state import State
from zeroboard.diagnosis.facts import RunFacts

OOM = "torch.OutOfMemoryError: CUDA out of memory."
OURS = ProcessReading(pid=101, memory=38 * GIB, ours=True)
OTHER = ProcessReading(pid=7, memory=41 * GIB)
STALLED = Finding(
    code="stalled", severity="warning", rank=1, says="finding.stalled.behind",
    evidence=Evidence(file="logs/rank_1.log", line=9, text="in all_reduce"),
)  # fmt: skip
FULL = Finding(code="gpu-memory-full", severity="warning", rank=0, says="finding.gpu-memory-full")


def codes(
    place: Path, what: str, *noticed: Finding, readings: tuple[Reading, ...] = (), at: State = "failed"
) -> list[str]:
    facts = RunFacts(
        state=state(at).model_copy(update={"ended": 1000.0}), errors=(error(1, 999.0, what, raised(what)),),
        gpus=GPUS, noticed=noticed, readings=readings,
    )  # fmt: skip
    return [finding.code for finding in found(place, {}, facts=facts).findings]


def test_a_full_gpu_and_another_process_on_it_testify_behind_a_gpu_out_of_memory(tmp_path: Path) -> None:
    full = gpu(1, memory_used=79 * GIB, processes=(OURS, OTHER))
    facts = RunFacts(
        state=state().model_copy(update={"ended": 1000.0}), errors=(error(1, 999.0, OOM, raised(OOM)),), gpus=GPUS,
        readings=(reading(990.0, gpu(0)), reading(995.0, gpu(0), full)),
    )  # fmt: skip
    made = found(tmp_path, {}, facts=facts)
    assert made.root == "cuda-oom"
    assert [(f.code, f.rank, f.severity) for f in made.findings[1:]] == [
        ("gpu-foreign", 1, "warning"), ("gpu-memory-full", 1, "warning"),
    ]  # fmt: skip
    evidence = made.findings[1].evidence
    assert evidence is not None and evidence.file == "readings.jsonl" and str(41 * GIB) in evidence.text


def test_what_was_noticed_is_told_once_and_before_what_is_only_read(tmp_path: Path) -> None:
    full = reading(999.0, gpu(0, memory_used=79 * GIB))
    assert codes(tmp_path, OOM, FULL, STALLED, readings=(full,)) == ["cuda-oom", "gpu-memory-full"]


def test_a_rank_that_was_behind_testifies_for_a_timeout_with_its_stack(tmp_path: Path) -> None:
    timeout = "RuntimeError: Timed out waiting 1800000ms for recv operation to complete"
    assert codes(tmp_path, timeout, STALLED, FULL) == ["collective-timeout", "stalled"]


def test_what_is_of_no_concern_or_too_old_or_too_late_is_left_out(tmp_path: Path) -> None:
    assert codes(tmp_path, "ValueError: row 7", FULL, STALLED) == ["python-exception"]
    full = gpu(0, memory_used=79 * GIB)
    assert codes(tmp_path, OOM, readings=(reading(700.0, full), reading(1003.0, full))) == ["cuda-oom"]
    assert codes(tmp_path, OOM, readings=(reading(999.0, gpu(0, memory_used=None, processes=None)),)) == ["cuda-oom"]
    assert codes(tmp_path, OOM, FULL, at="finished") == []


@pytest.mark.parametrize(("used", "signal", "expected"), [
    (63 * GIB, "SIGKILL", ["killed-by-signal", "host-oom"]),
    (40 * GIB, "SIGKILL", ["killed-by-signal"]),
    (None, "SIGKILL", ["killed-by-signal"]),
    (63 * GIB, "SIGSEGV", ["killed-by-signal"]),
])  # fmt: skip
def test_a_kill_while_the_host_was_full_says_so(
    tmp_path: Path, used: int | None, signal: str, expected: list[str]
) -> None:
    problem = Problem(code="killed-by-signal", says="run.failed.killed", params={"signal": signal, "rank": 1})
    facts = RunFacts(
        state=state(problem=problem).model_copy(update={"ended": 1000.0}),
        readings=(reading(990.0, memory_used=used, memory_total=64 * GIB),),
    )
    made = found(tmp_path, {}, facts=facts)
    assert made.root == "killed-by-signal" and [f.code for f in made.findings] == expected
