"""The name of tokenised data: the same for the same, another for anything else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.planning.facts import TINY, model, write_model
from zeroboard.catalogue import MODELS
from zeroboard.contract.mix import DataPart, Mix
from zeroboard.paths import Paths
from zeroboard.planning import tokens
from zeroboard.planning.models import read_model
from zeroboard.planning.shapes import llama_shapes
from zeroboard.planning.tokens import tokens_key


def test_the_key_follows_data_tokenizer_template_and_length(tmp_path: Path) -> None:
    data = tmp_path / "d.jsonl"
    data.write_text("one")
    facts = model(tmp_path / "m")
    first = tokens_key(data, facts, 512)
    assert first == tokens_key(data, facts, 512) and len(first) == 32
    copy = tmp_path / "copy.jsonl"
    copy.write_text("one")
    assert tokens_key(copy, facts, 512) == first, "the content counts, not the name"
    others = {tokens_key(data, facts, 513)}
    data.write_text("two")
    others.add(tokens_key(data, facts, 512))
    data.write_text("one")
    for file in ("tokenizer.json", "chat_template.jinja"):
        (tmp_path / "m" / file).write_text("changed")
        others.add(tokens_key(data, facts, 512))
    assert first not in others and len(others) == 4


def test_the_seed_counts_where_rows_are_held_out_and_nowhere_else(tmp_path: Path) -> None:
    data = tmp_path / "d.jsonl"
    data.write_text("one")
    facts = model(tmp_path / "m")
    plain = {tokens_key(data, facts, 512, seed=seed) for seed in (0, 42)}
    held = {tokens_key(data, facts, 512, evaluation=share, seed=seed) for share in (0.1, 0.2) for seed in (0, 42)}
    assert plain == {tokens_key(data, facts, 512)} and len(held) == 4 and not plain & held


def test_files_weights_and_columns_of_a_mix_count_and_the_seed_where_rows_are_chosen(tmp_path: Path) -> None:
    data, other = tmp_path / "d.jsonl", tmp_path / "e.jsonl"
    data.write_text("one")
    other.write_text("two")
    facts = model(tmp_path / "m")

    def key(mix: Mix, seed: int = 0) -> str:
        return tokens_key(data, facts, 512, mix=mix, seed=seed)

    part = DataPart(path=str(other))
    mixes = [
        Mix(),
        Mix(weight=2.0),
        Mix(weight=0.5),
        Mix(more=(part,)),
        Mix(more=(part, part)),
        Mix(more=(part.model_copy(update={"weight": 0.5}),)),
        Mix(more=(part.model_copy(update={"columns": {"output": "x"}}),)),
        Mix(held_out=part),
    ]
    keys = {key(mix) for mix in mixes}
    assert len(keys) == len(mixes) and key(Mix()) == tokens_key(data, facts, 512)
    assert [key(mix, 1) != key(mix, 0) for mix in mixes] == [mix.drawn for mix in mixes]
    copy = tmp_path / "f.jsonl"
    copy.write_text("two")
    assert key(Mix(more=(DataPart(path=str(copy)),))) == key(Mix(more=(part,))), "the content counts, not the name"
    other.write_text("three")
    assert key(Mix(more=(part,))) not in keys and key(Mix(held_out=part)) not in keys


def test_weights_do_not_change_the_key(tmp_path: Path) -> None:
    data = tmp_path / "d.jsonl"
    data.write_text("one")
    facts = model(tmp_path / "m")
    before = tokens_key(data, facts, 512)
    (tmp_path / "m" / "model.safetensors").write_bytes(b"x")
    assert tokens_key(data, facts, 512) == before


def test_a_bundled_model_keeps_its_key_when_it_is_converted(tmp_path: Path) -> None:
    data = tmp_path / "d.jsonl"
    data.write_text("one")
    paths = Paths(tmp_path / "cache")
    before, _ = read_model(MODELS[0].name, paths)
    tied = {**TINY, "tie_word_embeddings": True}
    write_model(MODELS[0].folder(paths), tied, llama_shapes(tied))
    after, _ = read_model(MODELS[0].name, paths)
    assert before is not None and after is not None and before.prepared != after.prepared
    assert tokens_key(data, before, 512) == tokens_key(data, after, 512)


def test_data_that_is_not_there_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tokens_key(tmp_path / "none", model(tmp_path / "m"), 512)


def test_what_columns_mean_counts_and_their_order_does_not(tmp_path: Path) -> None:
    facts, data = model(tmp_path / "m"), tmp_path / "d.csv"
    data.write_text("a,b\n1,2\n")
    one = {"instruction": "a", "output": "b"}
    keys = [tokens_key(data, facts, 512, columns=c) for c in ({}, one, dict(reversed(one.items())), {"output": "a"})]
    assert keys[0] == tokens_key(data, facts, 512) and keys[1] == keys[2] and len(set(keys)) == 3


def test_a_large_file_is_hashed_again_when_it_changes_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, read = tmp_path / "d", []
    monkeypatch.setattr(tokens, "LARGE", 4)
    monkeypatch.setattr(tokens, "sha256_file", lambda path: read.append(path) or str(len(read)))
    data.write_text("12345678")
    assert tokens.content(data) == tokens.content(data) == "1"
    data.write_text("123456789")
    assert tokens.content(data) == "2" and len(read) == 2


def test_a_pipe_or_a_device_is_never_read(tmp_path: Path) -> None:
    """With a pipe nobody writes to, or with zeros without end, a plan would never come."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "link.jsonl").symlink_to("/dev/zero")
    (tmp_path / "set" / "environ.jsonl").symlink_to("/proc/self/environ")
    assert {tokens.content(path) for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/proc/kmsg"))} == {
        tokens.NO_FILE
    }
    assert tokens.content(tmp_path / "set") == [f"environ.jsonl {tokens.NO_FILE}"]
    facts = model(tmp_path / "m")
    part = DataPart(path=str(tmp_path / "pipe"))
    for mix in (Mix(more=(part,)), Mix(held_out=part)):
        assert len(tokens_key(tmp_path / "pipe", facts, 512, mix=mix)) == 32
