"""What a training pays for its events, beats and peak memory: at most 1 % of its step time.

    python -m tests.benchmarks reporting

One training of a Llama of 6 layers and width 256 (6 million parameters, all trained in fp32 with plain data parallel;
the tiny model of the tests is too small for its steps to mean anything) in two ranks, through the real launcher. Blocks
of steps with reporting and without it alternate (with, without, without, with …) within the same processes, so that
whatever else the machine does hits both alike. With: an event, a look for a stop request and what the ranks tell each
other at each step (`log_every` 1, the most there is), a note for the beats at every change of place, their thread, the
peak memory. Without: none of these but the sum of the learned tokens over the ranks, which the loss is divided by; what
the Trainer itself logs is in both.

Printed are the medians over all pairs of blocks, with ÷ without, of the time and of the processor's time, which is less
shaken by what else runs on the machine; and the processor's time within our own callbacks. The first is the promise.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from transformers import LlamaConfig, LlamaForCausalLM, TrainerControl, TrainerState, TrainingArguments

from tests.engine.launch import logs, plan_run, start
from tests.tiny import tiny_data, tiny_tokenizer
from zeroboard.contract.spec import DataSpec, DeviceSpec, MethodSpec, ModelSpec, RunSpec, TrainSpec
from zeroboard.engine import train
from zeroboard.engine.__main__ import open_log
from zeroboard.engine.heart import Heart
from zeroboard.engine.reporter import Reporter, TrainingReporter
from zeroboard.paths import RunPaths

STEPS = 6
"""Of a block."""
PAIRS = 16
PROMISED = 1.01


def mid_model(folder: Path) -> Path:
    """A Llama between the tests' tiny one and the bundled one, with random weights."""
    tokenizer = tiny_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=1024,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=4,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class Switched(TrainingReporter):
    """Reports in every other block of steps, and notes how long each block took."""

    def __init__(self, reporter: Reporter, **kwargs: Any) -> None:
        super().__init__(reporter, **kwargs)
        self.blocks: list[tuple[bool, float, float]] = []
        """Reporting or not, seconds, seconds of the processor in all threads."""
        self.spent = 0.0
        """Seconds of the processor within the callbacks, of the blocks that count."""
        self._on = True
        self._begun: tuple[float, float] | None = None

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.global_step % STEPS or not state.global_step:  # the first block warms up
            return
        if self._begun is not None:
            wall, cpu = self._begun
            self.blocks.append((self._on, time.perf_counter() - wall, time.process_time() - cpu))
        if self._on and self._begun is not None:
            self.reporter.heart.stop()
        self._on = len(self.blocks) % 4 in (0, 3)
        kind = Heart if self._on else Deaf
        self.reporter.heart = kind(self.reporter.run, self.reporter.rank)
        if self._on:
            self.reporter.heart.start()
        self._begun = (time.perf_counter(), time.process_time())

    def agree(self, own: torch.Tensor) -> torch.Tensor:
        if self._on:
            begun = time.thread_time()
            learned = super().agree(own)
            self.spent += (time.thread_time() - begun) * (self._begun is not None)
            return learned
        dist.all_reduce(own)
        return own[0]

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self._timed(super().on_step_end, *args, **kwargs)

    def on_substep_end(self, *args: Any, **kwargs: Any) -> None:
        self._timed(super().on_substep_end, *args, **kwargs)

    def on_pre_optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        self._timed(super().on_pre_optimizer_step, *args, **kwargs)

    def on_log(self, *args: Any, **kwargs: Any) -> None:
        self._timed(super().on_log, *args, **kwargs)

    def _timed(self, report: Any, *args: Any, **kwargs: Any) -> None:
        if self._on:
            begun = time.thread_time()
            report(*args, **kwargs)
            self.spent += (time.thread_time() - begun) * (self._begun is not None)


class Deaf(Heart):
    """Notes nothing."""

    def at(self, where: Any, step: int | None = None) -> None:
        """Nothing."""


def rank(argv: list[str]) -> int:
    """One rank: trains, and rank 0 leaves what it measured in the run's folder."""
    run, number = RunPaths(Path(argv[1])), int(os.environ["RANK"])
    open_log(run.rank_log(number))
    made: list[Switched] = []

    def switched(*args: Any, **kwargs: Any) -> Switched:
        made.append(Switched(*args, **kwargs))
        return made[0]

    train.TrainingReporter = switched  # type: ignore[assignment, misc]
    code = train.main(run, Heart(run, number))
    if number == 0:
        (run.folder / "measured.json").write_text(json.dumps([made[0].blocks, made[0].spent]))
    return code


def main(_: list[str]) -> int:
    """Prints four lines; 1 where the promise is broken."""
    with tempfile.TemporaryDirectory(prefix="reporting-") as home:
        data = tiny_data(Path(home) / "data.jsonl", rows=32)
        spec = RunSpec(
            model=ModelSpec(path=str(mid_model(Path(home) / "model"))),
            data=DataSpec(path=str(data)),
            method=MethodSpec(kind="full"),
            train=TrainSpec(micro_batch=2, accumulation=2, max_steps=STEPS * (2 * PAIRS + 1) + 1),
            devices=DeviceSpec(count=2),
        )
        run, plan = plan_run(Path(home) / "cache", spec)
        if start(run, plan, module="tests.benchmarks.reporting").wait() != 0:
            raise SystemExit(logs(run))
        blocks, spent = json.loads((run.folder / "measured.json").read_text())
    pairs = [sorted(blocks[n : n + 2]) for n in range(0, len(blocks), 2)]
    low, middle, high = statistics.quantiles([on[1] / off[1] for off, on in pairs], n=4)
    worked = statistics.median(on[2] / off[2] for off, on in pairs)
    step, cpu = (statistics.median(off[n] / STEPS for off, _ in pairs) for n in (1, 2))
    own = spent / len(pairs) / STEPS
    print(f"step      {step * 1e3:7.1f} ms, {cpu * 1e3:.1f} ms of the processor, without reporting")
    print(
        f"time      {middle:7.4f} of that without, at most {PROMISED} (half of {PAIRS} pairs: {low:.4f} to {high:.4f})"
    )
    print(f"processor {worked:7.4f} of that without")
    print(f"callbacks {own * 1e3:7.3f} ms of the processor a step, {100 * own / cpu:.3f} % of it")
    return int(middle > PROMISED)


if __name__ == "__main__":
    sys.exit(rank(sys.argv[1:]) if sys.argv[1:2] == ["train"] else main([]))
