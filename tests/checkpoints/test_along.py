"""What travels with the weights never takes along what lies elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeroboard.checkpoints.along import judge_links, leads_out, take_along
from zeroboard.checkpoints.folder import list_folder
from zeroboard.errors import Refused
from zeroboard.messages import LANGUAGES, has, say


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with a private file beside it."""
    (tmp_path / "private").write_text("my secret")
    folder = tmp_path / "名 字\n"
    (folder / "below").mkdir(parents=True)
    (folder / "vocab.txt").write_text("a\nb\n")
    return folder


def test_a_link_that_leads_out_is_named_and_not_taken(model: Path, tmp_path: Path) -> None:
    (model / "merges.txt").symlink_to(tmp_path / "private")
    (model / "chat_template.jinja").symlink_to("../private")
    (model / "config.json").symlink_to(model / "below" / ".." / ".." / "private")
    problems = judge_links(list_folder(model))
    assert sorted(str(problem.params["file"]) for problem in problems) == [
        "chat_template.jinja", "config.json", "merges.txt",
    ]  # fmt: skip
    for problem in problems:
        for language in LANGUAGES:
            assert has(problem.remedy_key, language) and "{" not in say(problem.says or "", language, **problem.params)
    target = tmp_path / "out"
    target.mkdir()
    with pytest.raises(Refused):
        take_along(list_folder(model), "merges.txt", target)
    assert list(target.iterdir()) == []


def test_links_within_the_folder_and_into_the_hubs_own_cache_are_followed(model: Path, tmp_path: Path) -> None:
    (model / "merges.txt").symlink_to("vocab.txt")
    cache = tmp_path / "hub" / "models--someone--model"
    (cache / "blobs").mkdir(parents=True)
    (cache / "blobs" / "abc").write_text("{}")
    (cache / "snapshots" / "main").mkdir(parents=True)
    snapshot = cache / "snapshots" / "main"
    (snapshot / "config.json").symlink_to("../../blobs/abc")
    (model / "tokenizer.json").symlink_to(cache / "blobs" / "abc")
    assert judge_links(list_folder(model)) == judge_links(list_folder(snapshot)) == []
    link = tmp_path / "link"
    link.symlink_to(model)  # the folder itself may be one
    assert judge_links(list_folder(link)) == []
    target = tmp_path / "out"
    target.mkdir()
    take_along(list_folder(model), "merges.txt", target)
    assert (target / "merges.txt").read_text() == "a\nb\n" and not (target / "merges.txt").is_symlink()


def test_settings_and_tokenizer_may_lie_in_another_models_folder(model: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared" / "model"
    shared.mkdir(parents=True)
    for name, text in (("config.json", '{"model_type": "llama"}'), ("tokenizer.json", "{}"), ("LICENSE", "free")):
        (shared / name).write_text(text)
        (model / name).symlink_to(shared / name)
    assert judge_links(list_folder(model)) == []
    assert len(judge_links(list_folder(model), published=True)) == 2
    assert leads_out(list_folder(model), "LICENSE"), "settings and tokenizer alone are known for what they are"
    target = tmp_path / "out"
    target.mkdir()
    take_along(list_folder(model), "tokenizer.json", target)
    assert (target / "tokenizer.json").read_text() == "{}" and not (target / "tokenizer.json").is_symlink()


@pytest.mark.parametrize("settings", ['{"auths": {"somewhere": {"auth": "c2VjcmV0"}}}', "my secret", "[1]", None])
def test_settings_of_other_programs_are_private(model: Path, tmp_path: Path, settings: str | None) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "tokenizer.json").write_text("{}")
    if settings is not None:
        (other / "config.json").write_text(settings)
        (model / "config.json").symlink_to(other / "config.json")
    (model / "tokenizer.json").symlink_to(other / "tokenizer.json")
    assert len(judge_links(list_folder(model))) == (1 if settings is None else 2)


def test_a_link_of_one_name_to_a_file_of_another_leads_out_even_of_a_model(model: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (model / "tokenizer.json").symlink_to(tmp_path / "private")
    (tmp_path / "vocab.json").symlink_to(tmp_path / "private")
    (model / "vocab.json").symlink_to(tmp_path / "vocab.json")
    found = [problem.params["file"] for problem in judge_links(list_folder(model))]
    assert sorted(map(str, found)) == ["tokenizer.json", "vocab.json"]


def test_a_link_that_leads_nowhere_or_in_a_circle_leads_out(model: Path) -> None:
    (model / "a").symlink_to("b")
    (model / "b").symlink_to("a")
    assert leads_out(list_folder(model), "a") and leads_out(list_folder(model), "gone")
