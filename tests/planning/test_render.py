"""A plan for other launchers: words for a shell that mean what the plan means."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deepspeed.launcher import runner

from tests.planning import facts as make
from zeroboard.contract.plan import Plan
from zeroboard.errors import Refused
from zeroboard.messages import LANGUAGES, has
from zeroboard.paths import Paths
from zeroboard.planning.planner import make_plan
from zeroboard.planning.render import LAUNCHERS, Rendered, render

RUN = "20261129-211004-tiny-z2-7f3a"


def rendered(folder: Path, launcher: Any, *sets: str, cards: int = 0) -> tuple[Plan, Rendered]:
    host, spec = make.host(cards, hostname="node-1"), make.spec("zero.stage=2", *sets)
    plan = make_plan(
        spec, host=host, paths=Paths(folder / "a $cache's"), model=make.model(folder / "m"),
        data=make.data(folder / "d.jsonl"), tokens=None, run_id=RUN, python=sys.executable,
    )  # fmt: skip
    return plan, render(plan, spec, launcher, host)


def words_of(text: str, folder: Path, **more: str) -> tuple[list[str], dict[str, str]]:
    """What a shell makes of a text: the words after `env …`, and the environment, told by a stand-in for Python."""
    python, teller = shlex.quote(sys.executable), folder / "teller"
    code = (
        "import json, os, sys, pathlib; pathlib.Path('told').write_text(json.dumps([sys.argv[1:], dict(os.environ)]))"
    )
    teller.write_text(f'#!/bin/sh\nexec {python} -c "{code}" "$@"\n')  # what stands after #! may hold no space
    teller.chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "RANK": "7", **more}
    assert python in text
    told = text.replace(python, shlex.quote(str(teller)))
    subprocess.run(["bash", "-euc", told], env=env, cwd=folder, check=True)
    argv, environment = json.loads((folder / "told").read_text())
    return argv, environment


@pytest.mark.parametrize("launcher", ["torchrun", "nodes"])
def test_a_shell_gives_the_launcher_the_plans_own_words_and_environment(tmp_path: Path, launcher: str) -> None:
    sets = () if launcher == "torchrun" else ("devices.nodes=2", "devices.rendezvous=node-1:2345")
    plan, made = rendered(tmp_path, launcher, *sets, cards=2)
    for step in made.steps[1:]:
        argv, env = words_of(step.text, tmp_path, CUDA_VISIBLE_DEVICES="5")
        assert argv == list(plan.argv[1:])
        assert {name: env[name] for name in plan.env} == plan.env and "RANK" not in env
    argv, _ = words_of(made.steps[0].text, tmp_path)
    assert argv == ["-m", "zeroboard.runs", "prepare", plan.folder]


def test_each_machine_gets_the_same_command_with_its_gpus_by_index(tmp_path: Path) -> None:
    plan, made = rendered(tmp_path, "nodes", "devices.nodes=2", "devices.rendezvous=node-1:2345", cards=4)
    assert len(made.steps) == 3 and made.steps[1].text == made.steps[2].text
    assert plan.batch.gpus == 8 and plan.env["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"
    config = json.loads(plan.files["ds_z2_config.json"])
    assert config["train_batch_size"] == plan.batch.total == 8 * 2 * 4
    assert "--standalone" not in plan.argv and "node-1:2345" in plan.argv


def test_the_deepspeed_launcher_understands_its_words(tmp_path: Path) -> None:
    plan, made = rendered(tmp_path, "deepspeed", "devices.gpus=[GPU-3, GPU-1]", cards=4)
    argv, env = words_of(made.steps[1].text, tmp_path, CUDA_VISIBLE_DEVICES="5")
    args = runner.parse_args(argv[2:])
    assert (args.include, args.module, args.no_local_rank) == ("localhost:3,1", True, True)
    assert args.user_script == "zeroboard.engine" and args.user_args == ["train", plan.folder]
    assert "CUDA_VISIBLE_DEVICES" not in env  # it hands out the GPUs by itself
    _, cpu = rendered(tmp_path, "deepspeed")
    assert runner.parse_args(words_of(cpu.steps[1].text, tmp_path)[0][2:]).num_gpus == 2


def test_the_deepspeed_launcher_gets_a_list_of_machines_that_it_can_read(tmp_path: Path) -> None:
    sets = ("devices.nodes=3", "devices.rendezvous=node-1:2345", "devices.count=2")
    _, made = rendered(tmp_path, "deepspeed", *sets, cards=2)
    for step in made.steps[1:3]:
        subprocess.run(["bash", "-euc", step.text], cwd=tmp_path, check=True)
    pool = runner.fetch_hostfile(str(tmp_path / "hostfile"))
    args = runner.parse_args(words_of(made.steps[3].text, tmp_path)[0][2:])
    chosen = runner.parse_inclusion_exclusion(pool, args.include, "")
    assert dict(chosen) == {f"node-{number}": [0, 1] for number in (1, 2, 3)}
    assert "OMP_NUM_THREADS=1\n" in (tmp_path / ".deepspeed_env").read_text()


def test_slurm_gets_a_script_whose_tasks_are_agents_of_torchrun(tmp_path: Path) -> None:
    plan, made = rendered(tmp_path, "slurm", "devices.nodes=2", cards=4)
    subprocess.run(["bash", "-euc", made.steps[1].text], cwd=tmp_path, check=True)
    script = (tmp_path / "zeroboard.sbatch").read_text()
    head = [line for line in script.splitlines() if line.startswith("#SBATCH")]
    assert {"#SBATCH --nodes=2", "#SBATCH --ntasks-per-node=1", "#SBATCH --gpus-per-node=4"} <= set(head)
    for name, text in {"scontrol": "echo first; echo second", "srun": 'shift; exec "$@"'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    slurm = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_ID": "9", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    argv, env = words_of(script, tmp_path, **slurm)
    assert argv[argv.index("--rdzv-endpoint") + 1] == "first:29400" and argv[-1] == plan.folder
    assert argv[argv.index("--rdzv-id") + 1] == f"{RUN}-9" and argv[argv.index("--nnodes") + 1] == "2"
    assert env["CUDA_VISIBLE_DEVICES"] == "0,1,2,3" and "RANK" not in env  # Slurm's own GPUs stay


def test_every_step_says_what_it_is_for_and_a_plan_with_errors_has_none(tmp_path: Path) -> None:
    for launcher in LAUNCHERS:
        for sets in ((), ("devices.nodes=2",)):
            _, made = rendered(tmp_path, launcher, *sets)
            assert all(has(step.says, language) for step in made.steps for language in LANGUAGES)
    with pytest.raises(Refused):
        rendered(tmp_path, "slurm", "zero.offload=all")
