"""Runs as files, written by the contract's models: what a page shows when no engine is there.

python -m tests.ui.scripted CACHE [GPUS]      a cache with a run in each state, to look at with `ui --cache CACHE`

GPUS (0 to 8): the runs trained on so many GPUs, those of `shared/nvml/scenarios`. The running one is held by the
process that made it, so it stays `running` for as long as that goes on: it waits for Enter.
"""

from __future__ import annotations

import math
import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from zeroboard.contract.events import (
    ErrorEvent,
    EvalEvent,
    FindingEvent,
    MemoryEvent,
    PhaseEvent,
    ProofEvent,
    RankEvent,
    StepEvent,
    TrainEvent,
)
from zeroboard.contract.findings import Finding, Remedy
from zeroboard.contract.problems import Problem
from zeroboard.contract.readings import GpuReading, ProcessReading, Reading
from zeroboard.contract.reports import Check, RankProof, VerifyReport
from zeroboard.contract.state import Phase, ProcessMark, RunState, State
from zeroboard.files import append_line, to_json, write_atomic
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs import registry
from zeroboard.services import prepare

STEPS = 72
HOST = socket.gethostname()
FIRST_PID = 31000
"""The pids of the ranks follow it, as the processes of `shared/nvml/scenarios/eight_gpus.txt` do."""
OUT_OF_MEMORY = """Traceback (most recent call last):
  File "train.py", line 9, in step
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which 1.1 GiB is free.
"""  # noqa: E501 - as torch writes it
ECHO = """Traceback (most recent call last):
  File "train.py", line 12, in step
    dist.all_reduce(x)
RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.1.1]:27341
"""
EIGHT = (
    "GPU-6fec366d-dbba-e6c5-bc13-ebfb54f7d238", "GPU-520a3a67-f8d8-1c4f-1637-c0dc162742bc",
    "GPU-3afa80c0-03c9-e5c2-37f9-641008f076bf", "GPU-b085c3c9-f87b-5968-49ff-3207b07f2169",
    "GPU-e4b571d5-7517-dfc2-3438-ab64d1b8d03e", "GPU-6cba4167-347d-620c-b6a3-c092f65fa988",
    "GPU-a36eef7d-d4cf-b0ba-812a-42b394119be1", "GPU-3dc9b5a6-463d-8cfb-48f5-c44a1380a656",
)  # fmt: skip


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


def running(run: RunPaths, step: int = 30, gpus: Sequence[str] = ()) -> None:
    """Two ranks (or one a GPU) that have made some steps and were measured."""
    starting(run, "launch", None)
    now = time.time()
    devices = list(gpus) or ["cpu", "cpu"]
    for rank, device in enumerate(devices):
        pid = FIRST_PID + rank
        world = len(devices)
        said = RankEvent(seq=1, time=now - step, rank=rank, host=HOST, device=device, pid=pid, world_size=world)
        say(run, said)
        write_atomic(run.rank_log(rank), log_text(rank, world))
        say(run, MemoryEvent(seq=3, time=now, rank=rank, step=step, peak=1_900_000_000 + rank * 40_000_000))
    train = TrainEvent(
        seq=2, time=now, rank=0, steps=STEPS, epochs=8, rows=72, trainable_parameters=2_442_240, parameters=136_957_248
    )
    say(run, train)
    for at in range(1, step + 1):
        say(run, step_event(at, now - step))
        if at % 12 == 0:
            held_out = 3.0 * math.exp(-at / 15) + 0.55
            told = EvalEvent(seq=500 + at, time=now, rank=0, step=at, epoch=at / 9, loss=held_out, rows=8, seconds=0.4)
            say(run, told)
    ranks = tuple(
        RankProof(
            rank=rank, host=HOST, device=device, pid=FIRST_PID + rank, engine="deepspeed", stage=2,
            parameter_bytes=547_828_992, gradient_bytes=4_884_480,
            optimizer_bytes=14_653_440, offloaded_bytes=0, peak_memory_bytes=1_900_000_000,
        )
        for rank, device in enumerate(devices)
    )  # fmt: skip
    say(run, ProofEvent(seq=900, time=now, rank=0, ranks=ranks))
    for at in range(90):
        write_reading(run, reading(now - 900 + 10 * at, gpus))
    loss = step_event(step, now).loss
    held = {"devices": tuple(gpus)} if gpus else {}
    begun = {"started": now - step - 12, "phase": None, "phase_done": None}
    move(run, "running", step=step, steps=STEPS, loss=loss, **begun, **held)


def log_text(rank: int, world: int) -> str:
    """A rank's log with a bit of everything: a progress bar, colours, a warning, a line that looks bad and is not."""
    lines = [f"rank {rank} of {world} is here", "\x1b[33mWARNING\x1b[0m: the tokenizer has no padding token"]
    lines += ["  0%|          | 0/300\r 50%|#####     | 150/300\r100%|##########| 300/300"]
    lines += [f"line {n}" for n in range(600)]
    return "\n".join(lines) + "\n"


def reading(now: float, gpus: Sequence[str] = ()) -> Reading:
    """A sample of a machine that trains."""
    busy = 92 + 6 * math.sin(now / 40)
    cards = tuple(
        GpuReading(
            uuid=uuid, index=at, memory_used=70_866_960_384, memory_total=85_899_345_920, utilization=busy - 3 * at,
            temperature=60 + at, power=370, power_limit=400, clock_sm=1410, throttle=(),
            processes=(ProcessReading(pid=FIRST_PID + at, memory=70_864_863_232, ours=True),),
        )
        for at, uuid in enumerate(gpus)
    )  # fmt: skip
    used = int((5.2 + 0.6 * math.sin(now / 90)) * 2**30)
    return Reading(time=now, gpus=cards, cpu_percent=min(100.0, busy), memory_used=used, memory_total=8 << 30)


def write_reading(run: RunPaths, one: Reading) -> None:
    append_line(run.readings, one.model_dump_json())


def step_event(at: int, now: float = 0.0) -> StepEvent:
    return StepEvent(
        seq=10 + at,
        time=now + at,
        rank=0,
        step=at,
        epoch=at / 9,
        loss=3.1 * math.exp(-at / 14) + 0.4 + 0.15 * math.sin(at),
        learning_rate=1e-3 * (1 + math.cos(math.pi * at / STEPS)) / 2,
        grad_norm=1.4 * math.exp(-at / 20) + 0.2 + 0.1 * math.sin(2 * at),
        tokens_per_s=842.0 + 20 * math.sin(at),
        samples_per_s=5.1,
        step_time=1.0,
    )


def noticed(run: RunPaths) -> None:
    """Something that was seen while it runs, with a remedy that a field can do and one that none can."""
    mend = Remedy(says="remedy.larger-batches", set={"train.micro_batch": 4, "train.accumulation": 2})
    by_hand = Remedy(says="remedy.doctor")
    told = {"percent": 61, "minutes": 5, "gpus": "0, 1"}
    found = Finding(code="gpu-idle", severity="warning", says="finding.gpu-idle", params=told, remedies=(mend, by_hand))
    say(run, FindingEvent(seq=950, time=time.time(), rank=-1, finding=found))


def failed(run: RunPaths, gpus: Sequence[str] = ()) -> None:
    """The second rank died of a real exception, and the first of its death."""
    running(run, 12, gpus)
    write_atomic(run.rank_log(1), log_text(1, 2) + OUT_OF_MEMORY)
    write_atomic(run.rank_log(0), log_text(0, 2) + ECHO)
    error = ErrorEvent(
        seq=30,
        time=time.time(),
        rank=1,
        type="OutOfMemoryError",
        message="CUDA out of memory. <b>Tried</b> to allocate 2.00 GiB.",
        traceback=OUT_OF_MEMORY,
    )
    say(run, error)
    problem = Problem(
        code="python-exception",
        says="run.failed.exception",
        params={"rank": 1, "type": error.type, "message": error.message, "file": "rank_1.log"},
    )
    move(run, "failed", ended=time.time(), problem=problem, exit_code=1)


def finished(run: RunPaths, gpus: Sequence[str] = ()) -> None:
    """All steps made, an adapter on disk, verified."""
    running(run, STEPS, gpus)
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


def everything(root: Path, gpus: Sequence[str] = ()) -> dict[str, RunPaths]:
    """A cache with a run in each state."""
    paths = Paths(root)
    made = {name: planned(paths, name=name) for name in ("planned", "starting", "running", "failed", "finished")}
    starting(made["starting"])
    running(made["running"], gpus=gpus)
    noticed(made["running"])
    failed(made["failed"], gpus)
    finished(made["finished"], gpus)
    return made


def main() -> None:
    root = Path(sys.argv[1]).absolute()
    for name, run in everything(root, EIGHT[: int(sys.argv[2]) if len(sys.argv) > 2 else 0]).items():
        print(f"{name:9} {run.id}")
    input("The running one goes on until Enter is pressed: ")


if __name__ == "__main__":
    main()
