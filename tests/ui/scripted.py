"""Runs as files, written by the contract's models: what a page shows when no engine is there."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import psutil

from zeroboard.contract.events import (
    ErrorEvent,
    PhaseEvent,
    ProofEvent,
    RankEvent,
    StepEvent,
    TrainEvent,
)
from zeroboard.contract.problems import Problem
from zeroboard.contract.reports import Check, RankProof, VerifyReport
from zeroboard.contract.state import Phase, ProcessMark, RunState, State
from zeroboard.files import append_line, to_json, write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs import registry
from zeroboard.services import prepare

STEPS = 72


def planned(paths: Paths, **changes: object) -> RunPaths:
    """A run as Preview writes it, from the demo's spec with some fields changed."""
    sets = [f"{key}={value}" for key, value in changes.items()]
    plan = prepare.prepare(paths, prepare.load_spec("demo", sets))
    return paths.run(plan.run_id or "")


def move(run: RunPaths, state: State, **changes: object) -> RunState:
    """Puts a state into the run's file."""
    now = registry.read_state(run).model_copy(update={"state": state, "changed": time.time(), **changes})
    write_atomic(run.state, to_json(now.model_dump(mode="json")))
    return now


def starting(run: RunPaths, phase: Phase = "tokenise", done: float | None = 0.4) -> None:
    begun = {"started": time.time() - 8, "supervisor": myself()}
    move(run, "starting", phase=phase, phase_done=done, **begun)
    say(run, PhaseEvent(seq=1, time=time.time(), rank=-1, phase=phase, done=done))


def running(run: RunPaths, step: int = 30) -> None:
    """Two ranks that have made some steps and were measured."""
    starting(run, "launch", None)
    now = time.time()
    for rank in (0, 1):
        said = RankEvent(seq=1, time=now, rank=rank, host="lab-1", device="cpu", pid=4100 + rank, world_size=2)
        say(run, said)
        write_atomic(run.rank_log(rank), f"rank {rank} of 2 is here\n" + "".join(f"line {n}\n" for n in range(300)))
    train = TrainEvent(
        seq=2, time=now, rank=0, steps=STEPS, epochs=8, rows=72, trainable_parameters=2_442_240, parameters=136_957_248
    )
    say(run, train)
    for at in range(1, step + 1):
        say(run, step_event(at, now))
    ranks = tuple(
        RankProof(
            rank=rank, host="lab-1", device="cpu", pid=4100 + rank, engine="deepspeed", stage=2,
            parameter_bytes=547_828_992, gradient_bytes=4_884_480, optimizer_bytes=14_653_440, offloaded_bytes=0,
            peak_memory_bytes=1_900_000_000,
        )
        for rank in (0, 1)
    )  # fmt: skip
    say(run, ProofEvent(seq=900, time=now, rank=0, ranks=ranks))
    loss = step_event(step, now).loss
    move(run, "running", step=step, steps=STEPS, loss=loss, phase=None, phase_done=None)


def step_event(at: int, now: float = 0.0) -> StepEvent:
    return StepEvent(
        seq=10 + at,
        time=now + at,
        rank=0,
        step=at,
        epoch=at / 9,
        loss=3.1 * math.exp(-at / 14) + 0.4 + 0.15 * math.sin(at),
        learning_rate=1e-3 * (1 + math.cos(math.pi * at / STEPS)) / 2,
        tokens_per_s=842.0,
        step_time=1.42,
    )


def failed(run: RunPaths) -> None:
    """The second rank died of a real exception."""
    running(run, 12)
    error = ErrorEvent(
        seq=30,
        time=time.time(),
        rank=1,
        type="RuntimeError",
        message="<b>shapes</b> cannot be multiplied (2x64 and 63x64)",
        traceback="Traceback (most recent call last):\n  ...\nRuntimeError: shapes cannot be multiplied",
    )
    say(run, error)
    problem = Problem(
        code="python-exception",
        says="run.failed.exception",
        params={"rank": 1, "type": error.type, "message": error.message, "file": "rank_1.log"},
    )
    move(run, "failed", ended=time.time(), problem=problem, exit_code=1)


def finished(run: RunPaths) -> None:
    """All steps made, an adapter on disk, verified."""
    running(run, STEPS)
    write_atomic(run.model / "adapter_config.json", "{}")
    checks = (
        Check(name="complete", verdict="pass", says="check.complete.ok"),
        Check(name="finite", verdict="pass", says="check.finite.ok"),
        Check(name="effect", verdict="warn", says="check.effect.rounding"),
        Check(name="load", verdict="skip", says="check.effect.not-asked"),
    )
    report = VerifyReport(path=str(run.model), kind="lora-adapter", verdict="warn", checks=checks, facts={"rank": 8})
    write_atomic(run.verify_report, report.model_dump_json())
    move(run, "finished", ended=time.time())


def say(run: RunPaths, event: object) -> None:
    append_line(run.events, event.model_dump_json())  # type: ignore[attr-defined]


def myself() -> ProcessMark:
    """This process as the supervisor, so that nobody takes the run for lost."""
    return ProcessMark(pid=os.getpid(), started=psutil.Process().create_time())


def everything(root: Path) -> dict[str, RunPaths]:
    """A cache with a run in each state."""
    paths = Paths(root)
    made = {name: planned(paths, name=name) for name in ("planned", "starting", "running", "failed", "finished")}
    starting(made["starting"])
    running(made["running"])
    failed(made["failed"])
    finished(made["finished"])
    return made
