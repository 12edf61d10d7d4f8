"""Fakes, named as such: a scripted engine, and how to start it in the place of the real one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from zeroboard import swapfolders
from zeroboard.contract.plan import Batch, Plan, Resolved, TokenFacts, hash_files
from zeroboard.contract.spec import DataSpec, ModelSpec, RunSpec, ZeroSpec
from zeroboard.files import to_json, write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.planning.specs import spec_yaml
from zeroboard.runs import registry
from zeroboard.runs.context import Timing

ENGINE = Path(__file__).with_name("engine.py")
ROOT = Path(__file__).resolve().parents[2]
QUICK = Timing(tick=0.05, leave=1.0, saving=5.0, kill=0.5, linger=0.5, disk=1.0, settle=3.0)
"""A supervisor in a hurry."""


def popen(argv: list[str], **rest: Any) -> subprocess.Popen[Any]:
    """Starts the fake in the place of an engine verb, the hurried supervisor in that of the real one, and no poller."""
    if argv[1:3] == ["-m", "zeroboard.engine"]:
        argv = [argv[0], str(ENGINE), *argv[3:]]
    elif argv[1:3] == ["-m", "zeroboard.runs"]:
        argv = [argv[0], "-m", "tests.fakes.supervise", *argv[4:]]
        rest["cwd"] = ROOT
    elif argv[1:3] == ["-m", "zeroboard.monitor"]:
        argv = ["true"]  # a machine that nobody watches
    return subprocess.Popen(argv, **rest)


def make_run(
    paths: Paths,
    *script: str,
    env: dict[str, str] | None = None,
    tokens: bool = True,
    bundled: bool = False,
    swap: Path | None = None,
) -> RunPaths:
    """A planned run whose launcher is the fake engine with these options; it has a file that swaps within `swap`."""
    model = paths.models / ("SmolLM2-135M-Instruct" if bundled else "tiny")
    if not bundled:
        write_atomic(model / "config.json", "{}")
    spec = RunSpec(model=ModelSpec(path=model.name), data=DataSpec(path="demo-en"), zero=ZeroSpec(stage="2"))
    files = {"spec.yaml": spec_yaml(spec), "ds_z2_config.json": to_json({"zero_optimization": {"stage": 2}})}
    batch = Batch(micro=1, accumulation=2, gpus=2)

    def plan(run_id: str) -> Plan:
        folder = paths.run(run_id).folder
        if swap is not None:
            zero = {"offload_optimizer": {"device": "nvme", "nvme_path": str(swap / run_id)}}
            files[swapfolders.CONFIG] = to_json({"zero_optimization": zero})
        return Plan(
            run_id=run_id,
            folder=str(folder),
            argv=(sys.executable, str(ENGINE), "train", str(folder), *script),
            env={"ZEROBOARD_RUN": run_id, "PYTHONPATH": str(ROOT), **(env or {})},
            scrubbed=("RANK",),
            files=files,
            files_hash=hash_files(files),
            batch=batch,
            resolved=Resolved(
                device="cpu", backend="gloo", dtype="fp32", stage="2", offload="none", method="lora", schedule="linear",
                batch=batch, model_path=str(model), model_name=model.name, data_path="/data.jsonl",
                data_format="messages", tokens_key="abc", steps=None, save_every=None,
                deepspeed_config="ds_z2_config.json", threads=1,
            ),
        )  # fmt: skip

    if tokens:
        facts = TokenFacts(
            key="abc", rows=8, tokens=80, learned=30, longest=10, truncated=0, end_token_lost=0, without_trainable=0,
            template="model",
        )  # fmt: skip
        write_atomic(paths.tokens / "abc" / "manifest.json", facts.model_dump_json())
    made = registry.create(paths, spec, plan)
    assert made.run_id is not None
    return paths.run(made.run_id)
