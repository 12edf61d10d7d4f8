"""The rules about the machine: each is provoked, and keeps quiet where nothing is wrong or nobody has measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.planning import facts as make
from zeroboard.contract.folders import FolderFacts
from zeroboard.contract.plan import Plan
from zeroboard.contract.toolchain import OpFacts, Toolchain
from zeroboard.messages import LANGUAGES, has, say
from zeroboard.paths import Paths
from zeroboard.planning.machine import runs_on
from zeroboard.planning.planner import make_plan

CPU = Toolchain(torch="2.13.0+cpu", compiles=True, ops={"cpu_adam": OpFacts(compatible=True)})
CUDA = CPU.model_copy(update={"torch": "2.13.0", "cuda": "13.0", "architectures": ("sm_80", "sm_90", "compute_90")})
OFFLOAD = ("zero.stage=2", "zero.offload=optimizer")


@pytest.fixture
def told(tmp_path: Path) -> Any:
    """(severity, sentence) of every problem of a plan; every sentence and remedy is there and filled."""

    def plan(*sets: str, **other: Any) -> dict[str, str]:
        given: dict[str, Any] = {
            "host": make.host(),
            "paths": Paths(tmp_path / "cache"),
            "model": make.model(tmp_path / "m"),
            "data": make.data(tmp_path / "d.jsonl"),
            "tokens": None,
        }
        made: Plan = make_plan(make.spec(*sets), **(given | other))
        for problem in made.problems:
            for language in LANGUAGES:
                for key in (problem.message_key, problem.remedy_key):
                    assert has(key, language) and "{" not in say(key, language, **problem.params), key
        return {p.message_key.removeprefix("problem."): p.severity for p in made.problems}

    return plan


def test_offload_is_refused_where_deepspeed_or_the_compiler_says_no(told: Any) -> None:
    assert told(*OFFLOAD, toolchain=CPU) == {}
    deaf = CPU.model_copy(update={"compiles": False, "said": "Python.h: No such file"})
    assert told(*OFFLOAD, toolchain=deaf) == {"offload-toolchain.headers": "error"}
    ops = {"cpu_adam": OpFacts(compatible=False, why="CUDA_HOME does not exist")}
    assert told(*OFFLOAD, toolchain=CPU.model_copy(update={"ops": ops})) == {"offload-toolchain.refused": "error"}
    assert told("zero.stage=2", toolchain=deaf) == {}


def test_a_torch_that_cannot_use_the_gpus_is_refused(told: Any) -> None:
    new = make.host(1, driver="580.95.05")
    assert told(host=new, toolchain=CUDA) == {}
    assert told(host=new, toolchain=CPU) == {"dependency-version.torch-cpu": "error"}
    assert told(host=make.host(1, driver="550.54.15"), toolchain=CUDA) == {"dependency-version.driver": "error"}
    old = make.host(make.gpus(1, compute_capability="7.0"), driver="580.95.05")
    assert told(host=old, toolchain=CUDA) == {"dependency-version.architecture": "error"}
    assert told(toolchain=CPU) == {}  # no GPU: nothing to match


@pytest.mark.parametrize(
    ("built", "capability", "runs"),
    [
        (("sm_80",), "8.6", True),  # within the major version
        (("sm_86",), "8.0", False),
        (("sm_80",), "9.0", False),
        (("sm_80", "compute_80"), "12.0", True),  # compiled further by the driver
        (("sm_90a",), "9.0", True),
        (("sm_120",), "12.0", True),
        ((), "7.0", True),  # a build that tells nothing
    ],
)
def test_kernels_run_within_their_major_version_or_from_ptx(built: Any, capability: str, runs: bool) -> None:
    assert runs_on(built, capability) is runs


def test_cards_without_p2p_are_told_and_the_plan_sets_the_switches(tmp_path: Path, told: Any) -> None:
    cards = make.gpus(2, name="NVIDIA GeForce RTX 4090")
    old = make.host(cards, driver="545.23.08")
    assert told(host=old) == {"p2p-unsupported": "warning"}
    assert told(host=make.host(cards, driver="550.54.15")) == {}
    assert told(host=make.host(cards[:1], driver="545.23.08")) == {}
    plan = make_plan(
        make.spec(), host=old, paths=Paths(tmp_path), model=make.model(tmp_path / "m"),
        data=make.data(tmp_path / "d.jsonl"), tokens=None,
    )  # fmt: skip
    assert plan.env["NCCL_P2P_DISABLE"] == plan.env["NCCL_IB_DISABLE"] == "1"


def test_whoever_holds_memory_of_a_gpu_is_named(told: Any) -> None:
    def busy(memory: int | None) -> Any:
        process = {"pid": 4711, "user": "ada", "command": "python serve.py", "memory": memory}
        return make.host(make.gpus(1, processes=[process]))

    assert told(host=busy(8 << 30)) == {"gpu-busy.process": "warning"}
    assert told(host=busy(None)) == {"gpu-busy.process": "warning"}
    assert told(host=busy(50 << 20)) == {}  # a desktop
    held = busy(8 << 30).model_copy(update={"held": {"GPU-0": "some-run"}})
    assert told(host=held) == {"gpu-busy": "warning"}  # that run is named, and not its process once more


def test_a_host_too_small_for_what_it_has_to_keep_is_refused_and_a_tight_one_told(told: Any) -> None:
    full = ("method.kind=full", "zero.stage=2", "zero.offload=optimizer")
    assert told(*full, host=make.host(memory_total=1 << 20, memory_available=1 << 19)) == {"host-memory": "error"}
    assert told(*full, host=make.host(memory_available=1 << 20)) == {"host-memory.tight": "warning"}
    gpu = make.host(1, memory_total=1 << 20, memory_available=1 << 19)
    assert told("zero.stage=2", "devices.count=1", host=gpu) == {"stage-unneeded": "warning"}  # nothing is on the host


def test_an_output_folder_that_takes_no_file_is_refused(told: Any) -> None:
    good = FolderFacts(path="/out", exists=True, writable=True, filesystem="ext4")
    assert told(output=good) == {}
    assert told(output=good.model_copy(update={"writable": False})) == {"output-not-writable": "error"}
    assert told(output=FolderFacts(path="/out", exists=False)) == {"output-not-writable": "error"}


def test_several_machines_need_a_place_to_meet_and_a_folder_that_all_see(told: Any) -> None:
    local = FolderFacts(path="/out", exists=True, writable=True, filesystem="ext4")
    shared = local.model_copy(update={"filesystem": "nfs4"})
    two = "devices.nodes=2"
    assert told(two, "devices.rendezvous=node-1:29500", output=shared) == {}
    assert told(two, output=local) == {"output-not-shared": "warning"}
    assert told(two, "devices.rendezvous=127.0.0.1:29500", output=local) == {}  # all on this machine
    for wrong in ("no place", "host:99999", "host:", "-x:1"):
        assert told(two, f"devices.rendezvous={wrong}", output=shared) == {"value-range.rendezvous": "error"}
    assert told("devices.rendezvous=node-1") == {"ignored-choice.nodes": "warning"}
