"""The verb `tokenise`: the folder it leaves, what it counts, what it refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.tiny import CHATML, tiny_data, tiny_model
from zeroboard.contract.mix import DataPart, Mix
from zeroboard.contract.plan import read_tokens
from zeroboard.contract.requests import VERB_LINE, Answer, Progress, TokeniseRequest
from zeroboard.data.conversations import conversations
from zeroboard.engine.marking import encode
from zeroboard.engine.store import TokenData
from zeroboard.engine.tokens import load_tokenizer, tokenise
from zeroboard.engine.writing import held_out
from zeroboard.errors import NotFound, Refused
from zeroboard.planning.tokens import nothing_learned


def request(data: Path, model: Path, target: Path, max_length: int = 256) -> TokeniseRequest:
    return TokeniseRequest(data_path=str(data), model_path=str(model), max_length=max_length, target=str(target))


def write_rows(file: Path, *pairs: tuple[str, str]) -> Path:
    rows = ({"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]} for q, a in pairs)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.parametrize("form", ["alpaca", "sharegpt", "messages"])
def test_labels_decode_to_exactly_the_answers_of_the_file(tmp_path: Path, tiny_model_folder: Path, form: str) -> None:
    data = tiny_data(tmp_path / "data.jsonl", rows=12, format=form)  # type: ignore[arg-type]
    facts = tokenise(request(data, tiny_model_folder, tmp_path / "tokens" / "key"))
    tokenizer = load_tokenizer(tiny_model_folder)
    found = TokenData(tmp_path / "tokens" / "key")
    assert len(found) == facts.rows == 12
    for index, conversation in enumerate(conversations(data)):
        sample = found[index]
        kept = sample["input_ids"][sample["labels"] != -100]
        assert tokenizer.decode(kept) == conversation.turns[-1].content + "<|im_end|>"
        assert bool(((sample["labels"] == -100) | (sample["labels"] == sample["input_ids"])).all())
    assert facts.tokens == sum(len(found[i]["input_ids"]) for i in range(12))
    assert facts.learned == sum(int((found[i]["labels"] != -100).sum()) for i in range(12))
    assert (facts.key, facts.template, facts.truncated) == ("key", "model", 0)


def test_rows_are_cut_and_what_the_cut_costs_is_counted(tmp_path: Path, tiny_model_folder: Path) -> None:
    data = write_rows(
        tmp_path / "data.jsonl",
        ("Hi", "No."),  # fits
        ("Hi", "a long answer " * 30),  # cut within the answer: its end token is lost
        ("a long question " * 30, "No."),  # cut before the answer: nothing is left to learn
    )
    tokenizer = load_tokenizer(tiny_model_folder)
    longest = max(len(encode(tokenizer, c.turns).ids) for c in conversations(data))
    facts = tokenise(request(data, tiny_model_folder, tmp_path / "tokens" / "key", max_length=32))
    assert (facts.rows, facts.truncated, facts.end_token_lost, facts.without_trainable) == (2, 2, 2, 1)
    assert facts.longest == longest > 32
    assert max(len(TokenData(tmp_path / "tokens" / "key")[i]["input_ids"]) for i in range(2)) == 32


def test_rows_of_which_nothing_is_left_are_named_and_may_be_all(tmp_path: Path, tiny_model_folder: Path) -> None:
    data = write_rows(tmp_path / "data.jsonl", ("a long question " * 30, "No."))
    target = tmp_path / "tokens" / "key"
    facts = tokenise(request(data, tiny_model_folder, target, max_length=16))
    assert (facts.rows, facts.tokens, facts.learned, facts.without_trainable) == (0, 0, 0, 1)
    assert facts.named == dict.fromkeys(("truncated", "end-token-lost", "no-trainable-tokens"), (1,))
    assert len(TokenData(target)) == 0
    problem = nothing_learned(facts, path=data, max_length=16)
    assert problem is not None and problem.code == "no-trainable-tokens"


def test_the_histogram_holds_every_row(tmp_path: Path, tiny_model_folder: Path) -> None:
    answers = ["No." * count for count in (1, 2, 5, 40, 200)]
    data = write_rows(tmp_path / "data.jsonl", *(("Hi", answer) for answer in answers))
    tokenizer = load_tokenizer(tiny_model_folder)
    lengths = [len(encode(tokenizer, c.turns).ids) for c in conversations(data)]
    facts = tokenise(request(data, tiny_model_folder, tmp_path / "tokens" / "key", max_length=64))
    bars = facts.histogram
    assert sum(bar.rows for bar in bars) == 5 and len(bars) <= 24 and bars[0].start == 0
    assert all(one.end + 1 == other.start for one, other in pairwise(bars))
    assert [sum(bar.start <= length <= bar.end for length in lengths) for bar in bars] == [bar.rows for bar in bars]
    assert facts.longest == facts.p99 == max(lengths)


def test_missing_model_and_data_are_problems(tmp_path: Path, tiny_model_folder: Path, tiny_data_file: Path) -> None:
    (tmp_path / "empty").mkdir()
    for data, model, code in (
        (tiny_data_file, tmp_path / "empty", "model-missing"),
        (tmp_path / "nowhere.jsonl", tiny_model_folder, "data-missing"),
    ):
        with pytest.raises(Refused) as refused:
            tokenise(request(data, model, tmp_path / "tokens" / "key"))
        assert [problem.code for problem in refused.value.problems] == [code]


def test_a_file_that_is_gone_is_told_by_its_own_field(
    tmp_path: Path, tiny_model_folder: Path, tiny_data_file: Path
) -> None:
    gone, there = DataPart(path=str(tmp_path / "gone.jsonl")), DataPart(path=str(tiny_data_file))
    second = shutil.copy(tiny_data_file, tmp_path / "second.jsonl")
    asked = request(second, tiny_model_folder, tmp_path / "tokens" / "key")
    for mix, field in ((Mix(more=(there, gone)), "data.more"), (Mix(held_out=gone), "data.eval_path")):
        with pytest.raises(Refused) as refused:
            tokenise(asked.model_copy(update={"mix": mix}))
        (problem,) = refused.value.problems
        assert (problem.code, problem.field, problem.params["path"]) == ("data-missing", field, gone.path)


def test_a_template_that_refuses_names_the_row(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "model", template="{{ raise_exception('only on Sundays') }}")
    data = write_rows(tmp_path / "data.jsonl", ("Hi", "No."))
    facts = tokenise(request(data, model, tmp_path / "tokens" / "key"))
    assert (facts.rows, facts.refused, facts.refusal) == (0, 1, "only on Sundays")
    problem = nothing_learned(facts, path=data, max_length=256)
    assert problem is not None and problem.code == "template-refused"
    assert (problem.params["row"], problem.params["why"]) == (1, "only on Sundays")


def test_system_turns_that_the_template_has_no_place_for_are_folded_and_counted(tmp_path: Path) -> None:
    no_system = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}" + CHATML
    model = tiny_model(tmp_path / "model", template=no_system)
    data = tmp_path / "data.jsonl"
    rows = [[("user", "Hi"), ("assistant", "No.")], [("system", "Be brief."), ("user", "Hi"), ("assistant", "No.")]]
    data.write_text(
        "".join(json.dumps({"messages": [{"role": r, "content": c} for r, c in row]}) + "\n" for row in rows)
    )
    facts = tokenise(request(data, model, tmp_path / "tokens" / "key"))
    assert (facts.rows, facts.refused, facts.folded, facts.named) == (2, 0, 1, {"folded": (2,)})
    ids = TokenData(tmp_path / "tokens" / "key")[1]["input_ids"]
    assert "<|im_start|>user\nBe brief.\n\nHi<|im_end|>" in str(load_tokenizer(model).decode(ids))


def test_what_was_done_is_not_done_again_and_half_a_folder_is(
    tmp_path: Path, tiny_model_folder: Path, tiny_data_file: Path
) -> None:
    target = tmp_path / "tokens" / "key"
    facts = tokenise(request(tiny_data_file, tiny_model_folder, target))
    assert tokenise(request(tmp_path / "nowhere.jsonl", tiny_model_folder, target)) == facts
    (target / "manifest.json").unlink()
    assert read_tokens(target) is None
    with pytest.raises(NotFound):
        TokenData(target)
    assert tokenise(request(tiny_data_file, tiny_model_folder, target)) == facts
    assert [path.name for path in target.parent.iterdir()] == ["key"]


@pytest.mark.parametrize("share", [0.05, 0.25, 0.5])
def test_rows_are_held_out_by_the_seed_and_none_is_trained_on(
    tmp_path: Path, tiny_model_folder: Path, share: float
) -> None:
    pairs = [(f"question {n % 40}", f"answer {n % 40}") for n in range(100)]  # 20 rows thrice, 20 rows twice
    data = write_rows(tmp_path / "data.jsonl", *pairs)
    plain = tokenise(request(data, tiny_model_folder, tmp_path / "tokens" / "plain"))
    kept: list[tuple[list[str], list[str]]] = []
    for seed in (1, 1, 2):
        target = tmp_path / "tokens" / f"{len(kept)}"
        asked = request(data, tiny_model_folder, target).model_copy(update={"evaluation": share, "seed": seed})
        facts = tokenise(asked)
        train, held = TokenData(target), TokenData(target, "evaluation")
        assert (len(train), len(held)) == (facts.rows, facts.evaluation)
        assert facts.rows + facts.evaluation == plain.rows == 100 and abs(facts.evaluation - 100 * share) <= 2
        assert facts.tokens == sum(train.length(row) for row in range(len(train)))
        assert facts.learned == sum(int((train[row]["labels"] != -100).sum()) for row in range(len(train)))
        kept.append(tuple([str(part[row]) for row in range(len(part))] for part in (train, held)))  # type: ignore[arg-type]
        assert not set(kept[-1][0]) & set(kept[-1][1])
    everything = TokenData(tmp_path / "tokens" / "plain")
    assert sorted(kept[0][0] + kept[0][1]) == sorted(str(everything[row]) for row in range(100))
    assert kept[0] == kept[1] != kept[2]


def test_one_group_of_equal_rows_is_held_out_and_one_is_not() -> None:
    assert held_out([5, 5, 5, 9, 9], 0.01) == {3, 4}
    assert held_out([5, 9], 0.5) == {0}
    assert held_out([5, 5, 5], 0.5) == set()


def test_rows_that_are_all_alike_cannot_be_held_out(tmp_path: Path, tiny_model_folder: Path) -> None:
    data = write_rows(tmp_path / "data.jsonl", ("Hi", "No."), ("Hi", "No."))
    asked = request(data, tiny_model_folder, tmp_path / "tokens" / "key").model_copy(update={"evaluation": 0.1})
    with pytest.raises(Refused) as refused:
        tokenise(asked)
    assert [(p.field, p.says) for p in refused.value.problems] == [("data.evaluation", "problem.nothing-to-hold-out")]


def test_the_verb_speaks_in_lines_and_prints_nothing_else(
    tmp_path: Path, tiny_model_folder: Path, tiny_data_file: Path
) -> None:
    asked = request(tiny_data_file, tiny_model_folder, tmp_path / "tokens" / "key")
    done = subprocess.run(
        [sys.executable, "-m", "zeroboard.engine", "tokenise"],
        input=asked.model_dump_json() + "\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    said = [VERB_LINE.validate_json(line) for line in done.stdout.splitlines()]
    assert all(isinstance(line, Progress) for line in said[:-1]) and len(said) > 1
    last = said[-1]
    assert isinstance(last, Answer) and not last.problems
    assert last.value == read_tokens(tmp_path / "tokens" / "key").model_dump(mode="json")  # type: ignore[union-attr]


def test_an_unknown_verb_is_a_usage_error() -> None:
    done = subprocess.run([sys.executable, "-m", "zeroboard.engine", "dance"], capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr


def test_a_vocabulary_that_is_too_small_is_refused_before_any_rank(
    tmp_path: Path, tiny_model_folder: Path, tiny_data_file: Path
) -> None:
    small = tmp_path / "small"
    shutil.copytree(tiny_model_folder, small)
    config = json.loads((small / "config.json").read_text())
    (small / "config.json").write_text(json.dumps({**config, "vocab_size": 100}))
    for _ in range(2):  # also where the tokens are there already
        with pytest.raises(Refused) as refused:
            tokenise(request(tiny_data_file, small, tmp_path / "tokens" / "small"))
        (problem,) = refused.value.problems
        assert (problem.code, problem.says) == ("model-unsupported", "problem.model-unsupported.vocabulary")
        assert problem.params["rows"] == 100


def test_columns_are_read_as_a_person_says(tmp_path: Path, tiny_model_folder: Path) -> None:
    named, other = tmp_path / "named.csv", tmp_path / "other.csv"
    rows = "Hi,Hallo\nTag,Guten Tag\n"
    named.write_text("instruction,output\n" + rows)
    other.write_text("Anliegen,Entgegnung\n" + rows)
    plain = tokenise(request(named, tiny_model_folder, tmp_path / "plain"))
    asked = request(other, tiny_model_folder, tmp_path / "mapped")
    with pytest.raises(Refused):
        tokenise(asked)
    told = asked.model_copy(update={"columns": {"instruction": "Anliegen", "output": "Entgegnung"}})
    assert tokenise(told).model_copy(update={"key": plain.key}) == plain
    assert (tmp_path / "mapped" / "ids.bin").read_bytes() == (tmp_path / "plain" / "ids.bin").read_bytes()
