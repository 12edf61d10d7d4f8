"""The saved tokenizer against the tokens that were trained on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.tiny import CHATML, tiny_tokenizer
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


def test_what_is_gone_is_no_fault(tmp_path: Path, tiny_model_folder: Path, trained: TrainedRows) -> None:
    changed = trained.model_copy(update={"unchanged": False})
    gone = trained.model_copy(update={"data_path": str(tmp_path / "gone.jsonl")})
    assert says(tiny_model_folder, changed) == says(tiny_model_folder, gone) == ("skip", "rows-gone")
    emptied = trained.model_copy(update={"tokens": str(tmp_path)})
    assert says(tiny_model_folder, emptied) == ("skip", "tokens-gone")
