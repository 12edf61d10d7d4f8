from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkpoints import folders
from tests.checkpoints.folders import faults, found, judged
from zeroboard.checkpoints.tokenizer import Vocabulary, read_vocabulary


def test_more_rows_than_tokens_is_normal(tmp_path: Path) -> None:
    folder = folders.model(tmp_path / "m")
    folders.tokenizer(folder, tokens=37)
    assert not faults(judged(folder))


def test_more_tokens_than_rows_fails_and_tells_both(tmp_path: Path) -> None:
    folder = folders.model(tmp_path / "m")
    folders.tokenizer(folder, tokens=45)
    check = found(judged(folder), "check.tokenizer.too-large")
    assert (check.verdict, check.params["tokens"], check.params["rows"]) == ("fail", 45, 40)


def test_added_tokens_beyond_the_rows_are_a_warning(tmp_path: Path) -> None:
    folder = folders.model(tmp_path / "m")
    folders.tokenizer(folder, added=7)
    check = found(judged(folder), "check.tokenizer.too-large")
    assert (check.verdict, check.params["tokens"]) == ("warn", 47)


def test_without_tokenizer_or_template_it_warns(tmp_path: Path) -> None:
    folder = folders.model(tmp_path / "m")
    (folder / "chat_template.jinja").unlink()
    assert faults(judged(folder)) == {"check.template.missing": "warn"}
    (folder / "tokenizer.json").unlink()
    assert faults(judged(folder)) == {"check.tokenizer.missing": "warn", "check.template.no-tokenizer": "warn"}


def test_two_templates_that_disagree_warn_and_two_that_agree_do_not(tmp_path: Path) -> None:
    folder = folders.model(tmp_path / "m")
    folders.write_json(folder / "tokenizer_config.json", {"chat_template": "{{ messages }}\n"})
    assert not faults(judged(folder))
    named = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": "other"}]
    folders.write_json(folder / "tokenizer_config.json", {"chat_template": named})
    assert faults(judged(folder)) == {"check.template.disagree": "warn"}


def test_an_adapter_is_judged_by_its_own_tokenizer_first(tmp_path: Path) -> None:
    folder = folders.adapter(tmp_path / "a", tmp_path / "base")
    assert found(judged(folder), "check.tokenizer.of-base").verdict == "pass"
    folders.tokenizer(folder, tokens=50)
    assert faults(judged(folder)) == {"check.tokenizer.too-large": "fail"}


@pytest.mark.parametrize("content", ["", "{}", '{"model": {}}', '{"model": {"vocab": 3}}', '{"model": {"vocab": "x"}}'])
def test_a_tokenizer_without_vocabulary_fails(tmp_path: Path, content: str) -> None:
    folder = folders.model(tmp_path / "m")
    (folder / "tokenizer.json").write_text(content)
    assert "check.tokenizer" in "".join(faults(judged(folder)))


def test_vocabularies_of_all_kinds_are_counted() -> None:
    assert read_vocabulary({"model": {"vocab": {"a": 0, "b": 9}}}) == Vocabulary(tokens=10, learned=10)
    assert read_vocabulary({"model": {"vocab": [["a", 0.1], ["b", 0.2]]}}) == Vocabulary(tokens=2, learned=2)
    added = [{"id": 5, "content": "x"}, {"content": "y"}, 3]
    assert read_vocabulary({"model": {"vocab": {}}, "added_tokens": added}) == Vocabulary(tokens=6, learned=0)
