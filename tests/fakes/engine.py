"""A FAKE engine, for fast tests of a run's life: it trains nothing, and says what a real one would say.

    python engine.py train RUN_FOLDER [options]   plays launcher and ranks: events, logs, a result, an exit code
    python engine.py convert|tokenise|verify      plays a short verb: a request in, progress and an answer out

It speaks the real interface (`zeroboard.contract`) and imports nothing else of the program.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from zeroboard.contract.events import (
    EndEvent,
    ErrorEvent,
    ProofEvent,
    RankEvent,
    SaveEvent,
    StepEvent,
    TrainEvent,
)
from zeroboard.contract.plan import TokenFacts
from zeroboard.contract.reports import Check, RankProof, VerifyReport, overall
from zeroboard.contract.requests import Answer, Progress
from zeroboard.files import append_line, write_atomic

SLEEPER = [sys.executable, "-c", "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(120)"]


class Ranks:
    """The voices of all ranks in one process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counts: dict[int, int] = {}

    def say(self, kind: type, rank: int = 0, **values: object) -> None:
        self.counts[rank] = self.counts.get(rank, 0) + 1
        event = kind(seq=self.counts[rank], time=time.time(), rank=rank, **values)
        append_line(self.folder / "events.jsonl", event.model_dump_json())

    def stop(self) -> str | None:
        try:
            asked = json.loads((self.folder / "requests" / "stop.json").read_text())
        except FileNotFoundError:
            return None
        return "discarded" if asked["discard"] else "stopped"

    def save(self, name: str, step: int, seconds: float = 0.0) -> None:
        target = self.folder / name
        self.say(SaveEvent, step=step, path=str(target), done=False)
        target.mkdir(parents=True)
        time.sleep(seconds)
        write_atomic(target / "adapter_model.safetensors", b"fake")
        self.say(SaveEvent, step=step, path=str(target), done=True)


def train(asked: argparse.Namespace) -> int:
    ranks = Ranks(asked.folder)
    print("fake launcher", os.getpid(), flush=True)
    if asked.stray:
        subprocess.Popen(SLEEPER, start_new_session=True)
    if asked.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(asked.load)
    for rank in range(2):
        write_atomic(asked.folder / "logs" / f"rank_{rank}.log", f"rank {rank} is here\n")
        ranks.say(RankEvent, rank, host="here", device="cpu", pid=os.getpid(), world_size=2)
    if asked.silent:
        return 0
    ranks.say(TrainEvent, steps=asked.steps, epochs=1.0, rows=8, trainable_parameters=10, parameters=100)
    for step in range(1, asked.steps + 1):
        time.sleep(asked.step_time)
        if step == asked.fail_at:
            return fail(ranks)
        if step == asked.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        ranks.say(StepEvent, step=step, epoch=step / asked.steps, loss=2.0 / step, learning_rate=1e-3, step_time=0.05)
        if step == 1:
            ranks.say(ProofEvent, ranks=tuple(proof(rank) for rank in range(2)))
        if step == asked.save_at:
            ranks.save(f"checkpoints/checkpoint-{step}", step, seconds=0.5)
        reason = None if asked.deaf else ranks.stop()
        if reason == "discarded":
            ranks.say(EndEvent, reason=reason, step=step)
            return 0
        if reason == "stopped":
            ranks.save("model", step)
            ranks.say(EndEvent, reason=reason, step=step)
            return 0
    ranks.save("model", asked.steps)
    ranks.say(EndEvent, reason="completed", step=asked.steps)
    return 0


def fail(ranks: Ranks) -> int:
    """Rank 1 fails; rank 0 notices, and is the first to have it in the file."""
    first = time.time()
    time.sleep(0.02)
    ranks.say(ErrorEvent, 0, type="RuntimeError", message="Connection closed by peer", traceback="…")
    event = ErrorEvent(seq=9, time=first, rank=1, type="ValueError", message="row 7 is bad", traceback="…")
    append_line(ranks.folder / "events.jsonl", event.model_dump_json())
    return 1


def proof(rank: int) -> RankProof:
    return RankProof(
        rank=rank, host="here", device="cpu", pid=os.getpid(), engine="deepspeed", stage=2, parameter_bytes=400,
        gradient_bytes=20, optimizer_bytes=60, offloaded_bytes=0,
    )  # fmt: skip


def verb(name: str) -> int:
    request = json.loads(sys.stdin.readline())
    print(Progress(phase=name, done=0.5).model_dump_json(), flush=True)
    print("this goes to the log", file=sys.stderr, flush=True)
    if os.environ.get("FAKE_VERB_FAILS") == name:
        print("fake trouble", file=sys.stderr, flush=True)
        return 1
    if os.environ.get("FAKE_VERB_HANGS") == name:
        time.sleep(120)
    value: object = None
    if name == "convert":
        write_atomic(Path(request["target"]) / "config.json", "{}")
        value = {"path": request["target"]}
    elif name == "tokenise":
        rows = int(os.environ.get("FAKE_ROWS", "8"))
        facts = TokenFacts(
            key=Path(request["target"]).name, rows=rows, tokens=rows * 10, learned=rows * 4, longest=10, truncated=0,
            end_token_lost=0, without_trainable=0, template="model",
        )  # fmt: skip
        write_atomic(Path(request["target"]) / "manifest.json", facts.model_dump_json())
        value = facts.model_dump(mode="json")
    elif name == "verify":
        verdict = os.environ.get("FAKE_VERDICT", "pass")
        checks = (Check(name="trained", verdict=verdict, says="fake"),)
        report = VerifyReport(path=request["path"], kind="lora-adapter", verdict=overall(checks), checks=checks)
        value = report.model_dump(mode="json")
    print(Answer(value=value).model_dump_json(), flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    training = verbs.add_parser("train")
    training.add_argument("folder", type=Path)
    training.add_argument("--steps", type=int, default=3)
    training.add_argument("--step-time", type=float, default=0.05)
    training.add_argument("--load", type=float, default=0.0, help="seconds before the training begins")
    training.add_argument("--save-at", type=int)
    training.add_argument("--fail-at", type=int)
    training.add_argument("--die-at", type=int, help="killed by SIGKILL at this step")
    training.add_argument("--deaf", action="store_true", help="does not look for a stop")
    training.add_argument("--ignore-term", action="store_true")
    training.add_argument("--silent", action="store_true", help="leaves without having trained")
    training.add_argument("--stray", action="store_true", help="leaves a worker behind, in a session of its own")
    for name in ("convert", "tokenise", "verify"):
        verbs.add_parser(name)
    asked = parser.parse_args()
    return train(asked) if asked.verb == "train" else verb(asked.verb)


if __name__ == "__main__":
    sys.exit(main())
