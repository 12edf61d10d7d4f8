"""What every stage would hold, side by side: as the plan's own promise has it, and as ZeRO says."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeroboard.contract.host import HostFacts
from zeroboard.contract.plan import ModelFacts
from zeroboard.contract.spec import Offload, Stage
from zeroboard.paths import Paths
from zeroboard.planning.holding import allowed, every_stage, trainable
from zeroboard.services import prepare

HOST = HostFacts(
    hostname="lab-1",
    cpu_count=2,
    memory_total=8 << 30,
    memory_available=6 << 30,
    disk_total=1 << 40,
    disk_free=1 << 39,
    compiler="/usr/bin/g++",
)


@pytest.mark.parametrize(("stage", "offload"), [("none", "none"), ("2", "optimizer"), ("3", "all")])
def test_the_chosen_stage_holds_what_the_plan_promises(tmp_path: Path, stage: str, offload: str) -> None:
    spec = prepare.load_spec("demo", [f"zero.stage={stage}", f"zero.offload={offload}"])
    plan = prepare.plan(Paths(tmp_path), spec, host=HOST)
    assert plan.model is not None and plan.promise is not None
    assert every_stage(spec, plan.model, HOST)[spec.zero.stage] == plan.promise


def test_each_stage_holds_no_more_than_the_one_below(tmp_path: Path) -> None:
    spec = prepare.load_spec("demo", ["method.kind=full"])
    model = prepare.plan(Paths(tmp_path), spec, host=HOST).model
    assert model is not None
    held = every_stage(spec, model, HOST)
    assert list(held) == ["none", "1", "2", "3"]
    assert held["1"].optimizer_bytes < held["none"].optimizer_bytes
    assert held["2"].gradient_bytes < held["1"].gradient_bytes
    assert held["3"].parameter_bytes < held["2"].parameter_bytes


@pytest.mark.parametrize(
    ("asked", "stage", "meant"),
    [("all", "none", "none"), ("all", "2", "optimizer"), ("all", "3", "all"), ("none", "3", "none")],
)
def test_offload_is_kept_as_far_as_a_stage_can_do_it(asked: Offload, stage: Stage, meant: Offload) -> None:
    assert allowed(asked, stage) == meant


def test_a_model_whose_shapes_are_unknown_has_no_picture() -> None:
    spec = prepare.default_spec()
    bare = ModelFacts(path="/m", name="m")
    assert trainable(spec, bare) is None and trainable(spec, None) is None
    assert every_stage(spec, bare, HOST) == {}
