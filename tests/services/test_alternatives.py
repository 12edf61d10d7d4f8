"""The same plan for other launchers: what is printed is what a shell runs, and it trains."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from zeroboard.contract.spec import RunSpec
from zeroboard.paths import Paths
from zeroboard.runs.registry import read_state, remove_never_started
from zeroboard.services import alternatives, prepare, show

SECONDS = 150


def spec_of(model: Path, data: Path, *sets: str) -> RunSpec:
    mapping = {"model": {"path": str(model)}, "data": {"path": str(data), "max_length": 64}}
    return prepare.checked(prepare.specs.with_sets(mapping, sets))


def shell(text: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["bash", "-c", text], env=os.environ | {"RANK": "7", "WORLD_SIZE": "9"})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.train
@pytest.mark.long
def test_two_agents_on_one_machine_train_from_exactly_the_printed_commands(
    paths: Paths, tiny_model_folder: Path, tiny_data_file: Path
) -> None:
    sets = (
        "zero.stage=2", "devices.nodes=2", "devices.count=1", f"devices.rendezvous=127.0.0.1:{free_port()}",
        "train.max_steps=2", "train.micro_batch=1", "train.accumulation=1", "train.save_every=2",
    )  # fmt: skip
    spec = spec_of(tiny_model_folder, tiny_data_file, *sets)
    plan = prepare.prepare(paths, spec)
    assert plan.batch.gpus == 2 and plan.run_id is not None
    first, *agents = alternatives.render(paths, plan, spec, "nodes").steps
    assert [step.params["node"] for step in agents] == [1, 2]
    assert shell(first.text).wait(SECONDS) == 0
    started = [shell(step.text) for step in agents]
    try:
        assert [agent.wait(SECONDS) for agent in started] == [0, 0]
    finally:
        for agent in started:
            agent.kill()
    said = show.show(paths, plan.run_id)
    assert len(said["metrics"]) == 2 and len(said["proof"]["ranks"]) == 2
    assert said["proof"]["verdict"] == "in effect"
    run = paths.run(plan.run_id)
    assert (run.model / "adapter_model.safetensors").stat().st_size > 1000
    # such a run stays `planned`, and is not tidied away as one that was never started
    later = read_state(run).created + 10 * 86_400
    assert read_state(run).state == "planned" and remove_never_started(paths, now=later) == ()
