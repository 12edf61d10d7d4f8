"""The loss on held-out rows: every row counts once, whatever the ranks, and nothing of the training is changed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.tiny import tiny_data
from zeroboard.contract.requests import TokeniseRequest
from zeroboard.engine.evaluate import evaluation_loss, shares
from zeroboard.engine.loss import IGNORED, Collator
from zeroboard.engine.store import TokenData
from zeroboard.engine.tokens import tokenise


@pytest.mark.parametrize(("rows", "ranks", "micro"), [(1, 2, 2), (7, 2, 2), (8, 2, 2), (9, 4, 3), (3, 8, 1)])
def test_every_row_counts_once_and_all_ranks_make_as_many_passes(rows: int, ranks: int, micro: int) -> None:
    dealt = shares([10 + row for row in range(rows)], ranks=ranks, micro=micro)
    assert len({len(passes) for passes in dealt}) == 1 and len(dealt) == ranks
    counted = [row for passes in dealt for group, counts in passes if counts for row in group]
    assert sorted(counted) == list(range(rows))
    assert all(0 < len(group) <= micro for passes in dealt for group, _ in passes)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory, tiny_model_folder: Path) -> TokenData:
    folder = tmp_path_factory.mktemp("held")
    data = tiny_data(folder / "data.jsonl", rows=32)
    target = folder / "tokens"
    tokenise(
        TokeniseRequest(
            data_path=str(data),
            model_path=str(tiny_model_folder),
            max_length=128,
            evaluation=0.35,
            seed=1,
            target=str(target),
        )
    )
    return TokenData(target, "evaluation")


def test_the_loss_is_the_mean_over_learned_tokens_and_training_goes_on_as_before(
    held: TokenData, tiny_model_folder: Path
) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny_model_folder, dtype=torch.float32, attention_dropout=0.5)
    model.train()
    state = torch.random.get_rng_state()
    looked: list[None] = []
    loss = evaluation_loss(
        model,
        held,
        Collator(2),
        micro=3,
        device=torch.device("cpu"),
        keeps_positions=True,
        on_pass=lambda: looked.append(None),
    )
    assert torch.equal(state, torch.random.get_rng_state()) and model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert len(held) == 11 and len(looked) == 4
    model.eval()
    total, learned = 0.0, 0
    for row in range(len(held)):  # one by one, by the model's own loss
        count = int((held[row]["labels"][1:] != IGNORED).sum())
        with torch.no_grad():
            batch = Collator(2)([held[row]])
            assert batch.pop("counts").tolist() == [count, held.length(row), 1]
            total += float(model(**batch).loss) * count
        learned += count
    assert loss == pytest.approx(total / learned, rel=1e-5)
