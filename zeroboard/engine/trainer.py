"""The Trainer of transformers with the loss of supervised fine-tuning, an evaluation of its own, and events.

The loss of each pass is divided by the learned tokens of the whole step, over passes and ranks (see `loss`).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import nn
from transformers import Trainer
from transformers.trainer_pt_utils import LengthGroupedSampler

from zeroboard.contract.spec import Packing
from zeroboard.engine.evaluate import evaluation_loss
from zeroboard.engine.loss import Collator, PackedCollator, can_keep_positions, learned_loss
from zeroboard.engine.reporter import Reporter, TrainingReporter
from zeroboard.engine.sharding import innermost
from zeroboard.engine.store import PackedData, TokenData
from zeroboard.engine.swapping import note_sizes
from zeroboard.files import share


class SupervisedTrainer(Trainer):
    """`Trainer` over ready `input_ids` and `labels`, with events for what it saves."""

    loss_is_scaled_for_ga = True
    """Already divided by the learned tokens of all passes."""

    def __init__(
        self,
        *,
        reporter: Reporter,
        training: TrainingReporter,
        data: TokenData,
        held_out: TokenData | None,
        pad: int,
        packing: Packing,
        **kwargs: Any,
    ) -> None:
        packed = packing == "packed"
        super().__init__(
            train_dataset=PackedData(data) if packed else data,
            data_collator=PackedCollator(pad) if packed else Collator(pad),
            **kwargs,
        )
        self._lengths = data.lengths() if packing == "grouped" else None
        self._held_collator = Collator(pad)
        self.reporter = reporter
        self.training = training
        self.held_out = held_out
        """What is evaluated; None: nothing is."""
        # `num_items_in_batch` is divided by here, and by nobody else
        self.model_accepts_loss_kwargs = True
        self._keeps_positions = can_keep_positions(cast(nn.Module, self.model))

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], torch.Tensor]:
        """The batches of one optimizer step, and its learned tokens over all passes and ranks.

        The Trainer's own would gather the learned tokens alone; here the ranks tell each other in the same message
        what else they have to (see `TrainingReporter`), so that a step pays for one.
        """
        batches = list(itertools.islice(epoch_iterator, num_batches))
        own = torch.stack([batch["counts"] for batch in batches]).sum(0) if batches else torch.zeros(3)
        return batches, self.training.agree(own.to(device=device, dtype=torch.int64))

    def _get_train_sampler(self, train_dataset: Any = None) -> torch.utils.data.Sampler[int] | None:
        if self._lengths is None:
            return super()._get_train_sampler(train_dataset)
        # samples that go through the model together are of like length; which, and when, is left to chance
        together = self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
        return LengthGroupedSampler(together, lengths=self._lengths)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """See the module; `num_items_in_batch` is the number of learned tokens of the whole step."""
        assert num_items_in_batch is not None and not return_outputs  # `evaluate` does not come here
        self.reporter.heart.at("forward")
        loss = learned_loss(model, inputs, num_items_in_batch, keeps_positions=self._keeps_positions)
        self.reporter.heart.at("backward")
        return cast(torch.Tensor, loss * self.accelerator.num_processes)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """The loss on the rows that are held out, told as an event, once a step; called by all ranks.

        Returns no metrics: the Trainer chooses no best checkpoint here.
        """
        step = self.state.global_step
        self.control.should_evaluate = False
        if self.held_out is None or self.training.evaluated == step:
            return {}
        begun = time.monotonic()
        with self.compute_loss_context_manager():
            loss = evaluation_loss(
                self.model_wrapped,
                self.held_out,
                self._held_collator,
                micro=self.args.per_device_train_batch_size,
                device=self.args.device,
                keeps_positions=self._keeps_positions,
                on_pass=lambda: self.reporter.heart.at("eval"),
            )
        self.reporter.heart.at("load")
        self.training.was_evaluated(self.state, loss, rows=len(self.held_out), seconds=time.monotonic() - begun)
        return {}

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        folder = f"checkpoints/checkpoint-{self.state.global_step}"
        self.reporter.saving(self.state.global_step, folder, done=False)
        super()._save_checkpoint(model, trial)
        note_sizes(innermost(self.optimizer), self.reporter.run.folder / folder, self.reporter.rank)
        self.accelerator.wait_for_everyone()  # whole means: every rank's part is there
        if self.args.should_save:
            share(self.reporter.run.folder / folder)
        self.reporter.saving(self.state.global_step, folder, done=True)
