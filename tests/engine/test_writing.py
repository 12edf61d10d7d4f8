"""Several files in one folder of tokens: seen as often as their weights say, and what is measured never trained on."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from zeroboard.contract.mix import DataPart, Mix
from zeroboard.contract.plan import TokenFacts
from zeroboard.contract.requests import TokeniseRequest
from zeroboard.engine.store import PackedData, TokenData
from zeroboard.engine.tokens import load_tokenizer, tokenise
from zeroboard.engine.writing import drawn
from zeroboard.errors import Refused


def write(file: Path, *questions: str) -> Path:
    file.write_text("".join(json.dumps({"instruction": q, "output": f"On {q}."}) + "\n" for q in questions))
    return file


def named(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(count)]


def tokens(
    folder: Path, model: Path, data: Path, mix: Mix, *, evaluation: float = 0.0, seed: int = 0
) -> tuple[TokenFacts, list[str], list[str]]:
    """The facts, and the questions that an epoch sees and that are measured, in order."""
    request = TokeniseRequest(
        data_path=str(data), model_path=str(model), max_length=64, mix=mix, evaluation=evaluation, seed=seed,
        target=str(folder),
    )  # fmt: skip
    facts = tokenise(request)
    tokenizer = load_tokenizer(model)

    def questions(found: TokenData) -> list[str]:
        texts = [str(tokenizer.decode(found[at]["input_ids"])) for at in range(len(found))]
        return [text.split("user\n")[1].split("<")[0] for text in texts]

    return facts, questions(TokenData(folder)), questions(TokenData(folder, "evaluation"))


@pytest.mark.parametrize(("weight", "most", "least"), [(1.0, 1, 1), (2.0, 2, 2), (0.5, 1, 0), (2.5, 3, 2)])
def test_each_row_is_seen_as_often_as_its_weight_or_once_more(weight: float, most: int, least: int) -> None:
    found = drawn(np.arange(100, 150), weight, np.random.default_rng(1))
    counts = [Counter(found.tolist())[row] for row in range(100, 150)]
    assert len(found) == 50 * weight and {max(counts), min(counts)} == {most, least}
    assert sorted(found) == list(found), "in the order of the file"


def test_an_epoch_sees_each_file_by_its_weight_and_the_seed_says_which_half(
    tmp_path: Path, tiny_model_folder: Path
) -> None:
    first = write(tmp_path / "a.jsonl", *named("a", 6))
    mix = Mix(
        weight=2.0,
        more=(
            DataPart(path=str(write(tmp_path / "b.jsonl", *named("b", 8))), weight=0.5),
            DataPart(path=str(write(tmp_path / "c.jsonl", *named("c", 3)))),
        ),
    )
    facts, trained, measured = tokens(tmp_path / "one", tiny_model_folder, first, mix)
    counts = Counter(trained)
    assert [counts[q] for q in named("a", 6)] == [2] * 6 and [counts[q] for q in named("c", 3)] == [1] * 3
    half = {q for q in trained if q.startswith("b")}
    assert len(half) == 4 and measured == []
    assert (facts.rows, [(p.rows, p.seen) for p in facts.parts]) == (19, [(6, 12), (8, 4), (3, 3)])
    assert facts.tokens == sum(p.tokens for p in facts.parts) and facts.learned == sum(p.learned for p in facts.parts)
    data = TokenData(tmp_path / "one")
    assert facts.tokens == sum(data.lengths())
    packed = PackedData(data)
    assert sum(len(packed[at]) for at in range(len(packed))) == 19, "packing holds every sample that is seen"
    again, other = (
        tokens(tmp_path / name, tiny_model_folder, first, mix, seed=seed)[1]
        for name, seed in (("two", 0), ("three", 1))
    )
    assert again == trained and {q for q in other if q.startswith("b")} != half


def test_rows_are_held_out_of_all_files_together_and_equal_ones_stay_together(
    tmp_path: Path, tiny_model_folder: Path
) -> None:
    first = write(tmp_path / "a.jsonl", *named("q", 12))
    mix = Mix(weight=3.0, more=(DataPart(path=str(write(tmp_path / "b.jsonl", *named("q", 20))), weight=1.0),))
    facts, trained, measured = tokens(tmp_path / "t", tiny_model_folder, first, mix, evaluation=0.25, seed=3)
    assert not set(trained) & set(measured) and set(trained) | set(measured) == set(named("q", 20))
    assert facts.evaluation == len(measured) == 8, "a share of the rows, each counted once"
    assert sum(part.rows for part in facts.parts) == 24
    assert facts.rows == len(trained) == 3 * facts.parts[0].rows + facts.parts[1].rows


def test_what_is_measured_comes_from_its_own_file_without_what_is_trained_on(
    tmp_path: Path, tiny_model_folder: Path
) -> None:
    first = write(tmp_path / "a.jsonl", *named("a", 4))
    other = DataPart(path=str(write(tmp_path / "b.jsonl", *named("b", 4))), weight=0.25)
    measured_file = write(tmp_path / "c.jsonl", "a1", "c0", "b3", "c1", "long " * 60, "c0")
    mix = Mix(more=(other,), held_out=DataPart(path=str(measured_file)))
    facts, trained, measured = tokens(tmp_path / "t", tiny_model_folder, first, mix)
    assert measured == ["c0", "c1", "c0"] and not set(trained) & set(measured)
    assert facts.held is not None and (facts.held.overlap, facts.held.left_out) == (2, 1)
    assert facts.evaluation == 3 and facts.rows == 5 and facts.longest < 64, "lengths are those of the training"


@pytest.mark.parametrize(
    ("questions", "says"),
    [(["a0", "a1"], "problem.data-refused.all-trained"), (["long " * 60], "problem.data-refused.measured")],
)
def test_a_file_of_which_nothing_is_left_to_measure_is_refused(
    tmp_path: Path, tiny_model_folder: Path, questions: list[str], says: str
) -> None:
    first = write(tmp_path / "a.jsonl", *named("a", 4))
    mix = Mix(held_out=DataPart(path=str(write(tmp_path / "b.jsonl", *questions))))
    with pytest.raises(Refused) as refused:
        tokens(tmp_path / "t", tiny_model_folder, first, mix)
    assert [(p.field, p.says) for p in refused.value.problems] == [("data.eval_path", says)]
    assert not (tmp_path / "t").exists()


def test_a_file_of_the_mix_that_is_gone_or_of_another_kind_is_named(tmp_path: Path, tiny_model_folder: Path) -> None:
    first = write(tmp_path / "a.jsonl", "a")
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"prompt": "q", "chosen": "a", "rejected": "b"}\n')
    for path, code in ((tmp_path / "none.jsonl", "data-missing"), (pairs, "data-refused")):
        with pytest.raises(Refused) as refused:
            tokens(tmp_path / "t", tiny_model_folder, first, Mix(more=(DataPart(path=str(path)),)))
        assert [p.code for p in refused.value.problems] == [code]
