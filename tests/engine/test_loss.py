"""The loss: the plain one at the learned positions, whatever the batch is split into."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from zeroboard.engine.loss import IGNORED, Collator, can_keep_positions, learned_loss


def samples() -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    found = []
    for length, start in ((9, 4), (14, 11), (6, 1), (11, 2)):
        ids = torch.randint(3, 300, (length,), generator=generator)
        labels = ids.clone()
        labels[:start] = IGNORED
        found.append({"input_ids": ids, "labels": labels})
    return found


@pytest.fixture(scope="module")
def model(tiny_model_folder: Path) -> torch.nn.Module:
    return AutoModelForCausalLM.from_pretrained(tiny_model_folder, dtype=torch.float32)  # type: ignore[no-any-return]


def test_padding_is_neither_seen_nor_learned() -> None:
    batch = Collator(2)(samples())
    lengths = [len(sample["input_ids"]) for sample in samples()]
    assert batch["attention_mask"].sum(dim=1).tolist() == lengths
    for row, length in enumerate(lengths):
        assert (batch["input_ids"][row, length:] == 2).all()
        assert (batch["labels"][row, length:] == IGNORED).all()


@pytest.mark.parametrize("keeps_positions", [True, False])
def test_loss_and_gradients_equal_the_models_own(model: torch.nn.Module, keeps_positions: bool) -> None:
    batch = Collator(2)(samples())
    learned, tokens, rows = batch.pop("counts").tolist()
    assert rows == len(samples())
    assert (learned, tokens) == ((batch["labels"][:, 1:] != IGNORED).sum(), batch["attention_mask"].sum())
    model.zero_grad()
    plain = model(**batch).loss
    plain.backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    loss = learned_loss(model, batch, learned, keeps_positions=keeps_positions)
    loss.backward()
    torch.testing.assert_close(loss, plain)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], msg=name)


def test_the_loss_of_a_batch_is_the_sum_of_its_parts(model: torch.nn.Module) -> None:
    everything = Collator(2)(samples())
    learned = int((everything["labels"][:, 1:] != IGNORED).sum())
    whole = learned_loss(model, everything, learned, keeps_positions=True)
    parts = [learned_loss(model, Collator(2)([s]), learned, keeps_positions=True) for s in samples()]
    torch.testing.assert_close(sum(parts), whole)


def test_a_llama_computes_chosen_positions_only(model: torch.nn.Module) -> None:
    assert can_keep_positions(model)
