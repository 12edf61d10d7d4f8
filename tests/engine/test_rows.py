"""The saved tokenizer against the tokens that were trained on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.tiny import CHATML, tiny_tokenizer
from zeroboard.contract.mix import PLAIN, DataPart, Mix
from zeroboard.contract.requests import TokeniseRequest, TrainedRows
from zeroboard.engine.rows import judge_rows
from zeroboard.engine.tokens import tokenise
from zeroboard.messages import LANGUAGES, say


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, tiny_model_folder: Path, tiny_data_file: Path) -> TrainedRows:
    target = tmp_path_factory.mktemp("tokens") / "t"
    # short enough to cut some rows, and with some held out: their order is not that of the file
    request = TokeniseRequest(
        data_path=str(tiny_data_file),
        model_path=str(tiny_model_folder),
        max_length=24,
        target=str(target),
        evaluation=0.25,
    )
    assert tokenise(request).truncated > 0
    return TrainedRows(data_path=str(tiny_data_file), unchanged=True, tokens=str(target), max_length=24)


def says(path: Path, rows: TrainedRows, base: Path | None = None) -> tuple[str, str]:
    check = judge_rows(path, base, rows)
    assert all("{" not in say(check.says, language, **check.params) for language in LANGUAGES)
    return check.verdict, check.says.removeprefix("check.template.")


def test_the_tokenizer_of_the_training_gives_its_tokens(tiny_model_folder: Path, trained: TrainedRows) -> None:
    assert says(tiny_model_folder, trained) == ("pass", "rows-same")


def test_the_base_has_the_tokenizer_where_the_result_has_none(
    tmp_path: Path, tiny_model_folder: Path, trained: TrainedRows
) -> None:
    assert says(tmp_path, trained, tiny_model_folder) == ("pass", "rows-same")
    assert says(tmp_path, trained)[0] == "skip"


def test_another_template_is_found(tmp_path: Path, trained: TrainedRows) -> None:
    tiny_tokenizer(CHATML.replace("<|im_end|>\n", "<|im_end|>")).save_pretrained(tmp_path)
    assert says(tmp_path, trained) == ("fail", "rows-differ")


def test_another_vocabulary_is_found(tmp_path: Path, tiny_model_folder: Path, trained: TrainedRows) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(tiny_model_folder / name, tmp_path)
    words = json.loads((tmp_path / "tokenizer.json").read_text())
    words["model"]["merges"] = words["model"]["merges"][:5]
    (tmp_path / "tokenizer.json").write_text(json.dumps(words))
    assert says(tmp_path, trained) == ("fail", "rows-differ")


def test_a_template_that_refuses_is_found(tmp_path: Path, trained: TrainedRows) -> None:
    tiny_tokenizer("{{ raise_exception('not this way') }}").save_pretrained(tmp_path)
    assert says(tmp_path, trained) == ("fail", "rows-refused")


def tokens_of(folder: Path, model: Path, data: Path, mix: Mix = PLAIN) -> TrainedRows:
    request = TokeniseRequest(
        data_path=str(data), model_path=str(model), max_length=64, target=str(folder / "t"), mix=mix
    )
    tokenise(request)
    return TrainedRows(data_path=str(data), unchanged=True, tokens=str(folder / "t"), max_length=64, mix=mix)


def rows_in(file: Path, *questions: str) -> Path:
    file.write_text("".join(json.dumps({"instruction": q, "output": f"On {q}."}) + "\n" for q in questions))
    return file


def test_rows_that_the_template_refused_in_the_training_are_no_fault_and_others_are(
    tmp_path: Path, tiny_model_folder: Path
) -> None:
    model, other = tmp_path / "model", tmp_path / "other"
    refuses = "{% if 'bad' in messages[0]['content'] %}{{ raise_exception('not this way') }}{% endif %}"
    tiny_tokenizer(refuses + CHATML).save_pretrained(model)
    shutil.copy(tiny_model_folder / "config.json", model)
    trained = tokens_of(tmp_path, model, rows_in(tmp_path / "rows.jsonl", "good", "bad", "fair"))
    assert says(model, trained) == ("pass", "rows-same")
    tiny_tokenizer(refuses + refuses.replace("bad", "fair") + CHATML).save_pretrained(other)
    assert says(other, trained) == ("fail", "rows-refused")


def test_a_folder_of_files_and_files_that_were_mixed_in_are_looked_at(tmp_path: Path, tiny_model_folder: Path) -> None:
    (tmp_path / "rows").mkdir()
    rows_in(tmp_path / "rows" / "a.jsonl", "x" * 80)  # cut before its answer: nothing of it is learned
    mixed = Mix(more=(DataPart(path=str(rows_in(tmp_path / "b.jsonl", "one", "two"))),))
    trained = tokens_of(tmp_path, tiny_model_folder, tmp_path / "rows", mixed)
    assert says(tiny_model_folder, trained) == ("pass", "rows-same")
    tiny_tokenizer(CHATML.replace("<|im_end|>\n", "<|im_end|>")).save_pretrained(tmp_path / "other")
    assert says(tmp_path / "other", trained) == ("fail", "rows-differ")


def test_what_is_gone_is_no_fault(tmp_path: Path, tiny_model_folder: Path, trained: TrainedRows) -> None:
    changed = trained.model_copy(update={"unchanged": False})
    gone = trained.model_copy(update={"data_path": str(tmp_path / "gone.jsonl")})
    assert says(tiny_model_folder, changed) == says(tiny_model_folder, gone) == ("skip", "rows-gone")
    emptied = trained.model_copy(update={"tokens": str(tmp_path)})
    assert says(tiny_model_folder, emptied) == ("skip", "tokens-gone")
