"""What a rank says while it works, as lines of the run's `events.jsonl`; and the stop that all ranks share.

Every rank says that it is there, how much memory it has taken and which exception ended it; everything else is said by
rank 0 alone.
"""

from __future__ import annotations

import math
import time
import traceback
from typing import Any

import torch
import torch.distributed as dist
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from zeroboard.contract.events import (
    EndEvent,
    ErrorEvent,
    EvalEvent,
    MemoryEvent,
    PhaseEvent,
    ProofEvent,
    RankEvent,
    SaveEvent,
    StepEvent,
    TrainEvent,
)
from zeroboard.contract.reports import RankProof
from zeroboard.contract.requests import StopRequest, read_stop
from zeroboard.engine.heart import Heart
from zeroboard.engine.memory import PeakWatch
from zeroboard.files import append_line
from zeroboard.paths import RunPaths

AnyEvent = (
    EndEvent
    | ErrorEvent
    | EvalEvent
    | MemoryEvent
    | PhaseEvent
    | ProofEvent
    | RankEvent
    | SaveEvent
    | StepEvent
    | TrainEvent
)


def finite(value: Any) -> float | None:
    """The number, or None where there is none or it is NaN or infinite (JSON knows neither)."""
    number = math.nan if value is None else float(value)
    return number if math.isfinite(number) else None


class Reporter:
    """Writes this rank's events."""

    def __init__(self, run: RunPaths, rank: int, heart: Heart) -> None:
        self.run = run
        self.rank = rank
        self.heart = heart
        self._seq = 0

    def _write(self, kind: type[AnyEvent], **fields: Any) -> None:
        self._seq += 1
        event = kind(seq=self._seq, time=time.time(), rank=self.rank, **fields)
        append_line(self.run.events, event.model_dump_json())

    def rank_is_there(self, *, host: str, device: str, pid: int, world_size: int) -> None:
        self._write(RankEvent, host=host, device=device, pid=pid, world_size=world_size)

    def error(self, error: BaseException) -> None:
        """The exception that ends this rank, with its traceback."""
        self._write(
            ErrorEvent,
            type=type(error).__name__,
            message=str(error),
            traceback="".join(traceback.format_exception(error)),
        )

    def launching(self, done: float, says: str) -> None:
        """Rank 0: what the launch is at, `done` from 0 to 1."""
        if self.rank == 0:
            self._write(PhaseEvent, phase="launch", done=done, says=says)

    def training(self, **facts: Any) -> None:
        """Rank 0: the loop begins; the fields of `TrainEvent`."""
        if self.rank == 0:
            self._write(TrainEvent, **facts)

    def step(self, **facts: Any) -> None:
        """Rank 0: the fields of `StepEvent`."""
        if self.rank == 0:
            self._write(StepEvent, **facts)

    def evaluated(self, **facts: Any) -> None:
        """Rank 0: the fields of `EvalEvent`."""
        if self.rank == 0:
            self._write(EvalEvent, **facts)

    def memory(self, *, step: int, peak: int) -> None:
        """Every rank: the most memory that it has held, in bytes."""
        self._write(MemoryEvent, step=step, peak=peak)

    def proof(self, ranks: tuple[RankProof, ...]) -> None:
        if self.rank == 0:
            self._write(ProofEvent, ranks=ranks)

    def saving(self, step: int, path: str, *, done: bool) -> None:
        """Rank 0: a checkpoint or the result is being written (`done` False), or is whole (True)."""
        self.heart.at("load" if done else "save", step)
        if self.rank == 0:
            self._write(SaveEvent, step=step, path=path, done=done)

    def end(self, reason: str, step: int) -> None:
        if self.rank == 0:
            self._write(EndEvent, reason=reason, step=step)


class _Sums:
    """Numbers that the ranks added up, brought to the host while the device goes on computing."""

    def __init__(self, sums: torch.Tensor) -> None:
        self._sums = sums.to("cpu", non_blocking=True)
        self._arrived = None
        if sums.device.type == "cuda":
            self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._arrived.record()

    def read(self) -> list[int]:
        """The numbers; waits for nothing that was asked of the device later than they were."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return [int(number) for number in self._sums.tolist()]


class TrainingReporter(TrainerCallback):
    """Turns the Trainer's steps into events, and a stop request into the end of the loop.

    Before each step the ranks add up five numbers in one message: its learned tokens, all its tokens, its samples, the
    ranks that see a request to stop and keep, those that see one to discard. So the throughput counts every rank, and
    all ranks learn of a stop at the same step, whoever saw it first; they finish that step and leave.
    """

    def __init__(
        self,
        reporter: Reporter,
        *,
        facts: dict[str, int],
        evaluates: bool = False,
        evaluate_every: int | None = None,
    ) -> None:
        self.reporter = reporter
        self.evaluates = evaluates
        """Whether there are rows that are held out."""
        self.evaluate_every = evaluate_every
        """Steps; None: at the end of each epoch."""
        self.evaluated: int | None = None
        """The step after which the last evaluation was made."""
        self.facts = facts
        """`rows`, `parameters`, `trainable_parameters`."""
        self.stop: StopRequest | None = None
        """Set, on every rank alike, once the ranks have agreed to leave."""
        self._agreed: _Sums | None = None
        """What the ranks told each other before the present step."""
        self._tokens = 0
        self._samples = 0
        self._since = (0, 0.0)
        self._step = 0
        self._peak = PeakWatch(lambda peak: reporter.memory(step=self._step, peak=peak))

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._since = (state.global_step, time.monotonic())
        self.reporter.heart.at("load", state.global_step)
        self.reporter.training(steps=state.max_steps, epochs=float(args.num_train_epochs), **self.facts)

    def agree(self, own: torch.Tensor) -> torch.Tensor:
        """Called by all ranks before a step with `own`, this rank's [learned tokens, tokens, samples], int64.

        Returns the learned tokens of all ranks, a scalar on the same device.
        """
        self.reporter.heart.at("wait")
        request = read_stop(self.reporter.run)
        wishes = (request is not None and not request.discard, request is not None and request.discard)
        sums = torch.cat((own, torch.tensor(wishes, dtype=own.dtype, device=own.device)))
        if dist.is_initialized():
            dist.all_reduce(sums)
        self._agreed = _Sums(sums)
        return sums[0]

    def on_substep_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.reporter.heart.at("load")

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.reporter.heart.at("optimizer")

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.reporter.heart.at("load", state.global_step)
        self._step = state.global_step
        self._peak.look()
        assert self._agreed is not None  # the trainer asks for it before each step
        _, tokens, samples, keep, discard = self._agreed.read()
        self._tokens += tokens
        self._samples += samples
        if self.evaluates and self.evaluate_every is not None:
            control.should_evaluate = state.global_step % self.evaluate_every == 0
        if keep or discard:
            self.stop = StopRequest(discard=discard > 0, time=time.time())
            control.should_training_stop = True
            control.should_evaluate = False
            control.should_save = not self.stop.discard
            control.should_log = True

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        # who asked to stop waits for the ranks to leave
        control.should_evaluate = self.evaluates and self.evaluate_every is None and self.stop is None

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._peak.look(last=True)

    def was_evaluated(self, state: TrainerState, loss: float, *, rows: int, seconds: float) -> None:
        """An evaluation was made; its time is none of the steps'."""
        self.evaluated = state.global_step
        self._since = (self._since[0], self._since[1] + seconds)
        self.reporter.evaluated(
            step=state.global_step, epoch=state.epoch or 0.0, loss=finite(loss), rows=rows, seconds=seconds
        )

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not logs or "loss" not in logs:
            return  # the Trainer's summary at the end
        last, since = self._since
        now = time.monotonic()
        steps = state.global_step - last
        seconds = now - since
        self.reporter.step(
            step=state.global_step,
            epoch=state.epoch or 0.0,
            loss=finite(logs["loss"]),
            learning_rate=float(logs["learning_rate"]),
            grad_norm=finite(logs.get("grad_norm")),
            tokens_per_s=self._tokens / seconds,
            samples_per_s=self._samples / seconds,
            step_time=seconds / max(steps, 1),
        )
        self._tokens = self._samples = 0
        self._since = (state.global_step, now)
