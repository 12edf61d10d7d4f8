"""Each line of the pre-flight is provoked: what is wrong with a machine stands under its name, with the remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.planning import facts as make
from zeroboard.contract.folders import FolderFacts
from zeroboard.contract.reports import DoctorCheck
from zeroboard.contract.toolchain import OpFacts, Toolchain
from zeroboard.messages import LANGUAGES, has, say
from zeroboard.paths import Paths
from zeroboard.runs.leftovers import LeftOver
from zeroboard.services import doctor
from zeroboard.services.doctor import SLOW, Machine, machine_checks
from zeroboard.services.preflight import FAILED, PLACES

GOOD = {
    "torch": "2.13.0", "transformers": "5.24.0", "peft": "0.21.2", "accelerate": "1.15.0", "safetensors": "0.8.0",
    "deepspeed": "0.19.8",
}  # fmt: skip
FOLDER = FolderFacts(path="/runs", exists=True, writable=True, filesystem="ext4")
CUDA = Toolchain(
    torch="2.13.0", cuda="13.0", architectures=("sm_80", "compute_90"), compiles=True,
    ops={"cpu_adam": OpFacts(compatible=True), "async_io": OpFacts(compatible=True)},
)  # fmt: skip
LEFT = LeftOver(run="a-run", folder=Path("/fast/a-run"), bytes=3 << 30)
CONSUMER = {"name": "NVIDIA GeForce RTX 4090", "compute_capability": "8.9"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What differs from a good machine of two GPUs, and what is said of it."""

    says: str
    verdict: str = "warn"
    host: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    act: Callable[[pytest.MonkeyPatch], None] = lambda patch: None


def tools(**other: Any) -> dict[str, Any]:
    return {"toolchain": CUDA.model_copy(update=other)}


CASES: list[tuple[str, Case]] = [
    ("nvml", Case(says="nvml.driver-mismatch", host={"nvml": "nvml.driver-mismatch"})),
    ("driver", Case(says="doctor.driver.none", verdict="skip", host={"driver": None})),
    ("gpus", Case(says="doctor.gpus.lost", host={"gpus": make.gpus(2, state="lost")})),
    ("gpus", Case(says="doctor.gpus.hidden", host={"visible": ("1",)})),
    ("torch-cuda", Case(says="doctor.torch-cuda.broken", verdict="fail", machine={"why": "ImportError: libcudart"})),
    ("torch-cuda", Case(says="problem.dependency-version.torch-cpu", machine=tools(cuda=None))),
    ("torch-cuda", Case(says="problem.dependency-version.driver", host={"driver": "550.54.15"})),
    ("torch-cuda", Case(says="problem.dependency-version.architecture", machine=tools(architectures=("sm_90",)))),
    ("capability", Case(says="doctor.capability.no-bf16", verdict="pass",
                        host={"gpus": make.gpus(2, compute_capability="7.5")})),
    ("p2p", Case(says="doctor.p2p.off", host={"gpus": make.gpus(2, **CONSUMER), "driver": "535.54.15"})),
    ("deepspeed", Case(says="doctor.deepspeed.missing", host={"packages": {**GOOD, "deepspeed": None}})),
    ("deepspeed", Case(says="problem.dependency-version.unsafe", host={"packages": {**GOOD, "deepspeed": "0.16.0"}})),
    ("ops", Case(says="doctor.ops.missing", host={"compiler": None})),
    ("ops", Case(says="doctor.ops.headers", machine=tools(compiles=False, said="Python.h: No such file"))),
    ("ops", Case(says="doctor.ops.refused", machine=tools(ops={"async_io": OpFacts(compatible=False, why="libaio")}))),
    ("compiler", Case(says="doctor.compiler.missing", host={"compiler": None},
                      act=lambda patch: patch.setattr(doctor, "ninja", lambda: "/usr/bin/ninja"))),
    ("compiler", Case(says="doctor.compiler.no-ninja", host={"compiler": None},
                      act=lambda patch: patch.setattr(doctor, "ninja", lambda: None))),
    ("memory", Case(says="doctor.memory.low", host={"memory_available": 1 << 30})),
    ("disk", Case(says="doctor.disk.low", host={"disk_free": 2 << 30})),
    ("disk", Case(says="doctor.disk.low", verdict="fail", host={"disk_free": 1 << 20})),
    ("output", Case(says="problem.output-not-writable", verdict="fail",
                    machine={"output": FOLDER.model_copy(update={"writable": False})})),
    ("shm", Case(says="doctor.shm.none", host={"shm_total": None})),
    ("shm", Case(says="doctor.shm.low", host={"shm_total": 64 << 20})),
    ("swap", Case(says="doctor.swap.left", act=lambda patch: patch.setattr(doctor, "left_over", lambda _: (LEFT,)))),
    ("packages", Case(says="doctor.packages.missing", verdict="fail", host={"packages": {**GOOD, "peft": None}})),
    ("packages", Case(says="problem.dependency-version.unsafe", verdict="fail",
                      host={"packages": {**GOOD, "transformers": "4.40.0"}})),
    ("packages", Case(says="problem.dependency-version.pynvml", host={"packages": {**GOOD, "pynvml": "11.5.0"}})),
    ("conflicts", Case(says="doctor.conflicts.found", machine={"conflicts": ("a 1 requires b>2, but you have b 1.",)})),
    ("environment", Case(says="doctor.environment.slow", act=lambda patch: patch.setenv(SLOW[0], "1"))),
    ("environment", Case(says="doctor.environment.taken", verdict="pass",
                         act=lambda patch: patch.setenv("MASTER_PORT", "1"))),
    ("model", Case(says="doctor.model.missing",
                   act=lambda patch: patch.setattr(doctor.importlib.util, "find_spec", lambda _: None))),
]  # fmt: skip


def checks(tmp_path: Path, case: Case) -> dict[str, DoctorCheck]:
    facts = {
        "gpus": make.gpus(2), "driver": "580.95.05", "nvml": None, "shm_total": 8 << 30, "packages": GOOD, **case.host,
    }  # fmt: skip
    facts["packages"] = {name: version for name, version in facts["packages"].items() if version is not None}
    machine = {"output": FOLDER, "toolchain": CUDA, "conflicts": (), **case.machine}
    found = machine_checks(Machine(host=make.host(**facts), **machine), Paths(tmp_path))
    return {check.name: check for check in found}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*SLOW, *doctor.SCRUBBED):
        monkeypatch.delenv(name, raising=False)


def test_a_good_machine_passes_every_line(tmp_path: Path) -> None:
    found = checks(tmp_path, Case(says=""))
    assert {name: check.verdict for name, check in found.items()} == dict.fromkeys(found, "pass")


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}-{case.says}" for name, case in CASES])
def test_what_is_wrong_stands_under_its_name_with_the_remedy(
    name: str, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.act(monkeypatch)
    check = checks(tmp_path, case)[name]
    assert (check.says, check.verdict) == (case.says, case.verdict)
    for language in LANGUAGES:
        assert "{" not in say(check.says, language, **check.params)
        if check.verdict in ("warn", "fail"):
            assert "{" not in say(check.remedy_key, language, **check.params) and has(check.remedy_key, language)


def test_every_line_is_provoked_and_whatever_can_fail_stops_a_start_by_its_own_code(tmp_path: Path) -> None:
    assert {name for name, _ in CASES} == set(checks(tmp_path, Case(says="")))
    failing = {name for name, case in CASES if case.verdict == "fail"}
    assert failing <= set(FAILED) and {PLACES.get(code) for code in FAILED.values()} >= {"packages", "disk", "output"}
