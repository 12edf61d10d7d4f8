"""A run as one file: everything in it, nothing from elsewhere, nothing that runs."""

from __future__ import annotations

import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.ui.scripted import everything
from zeroboard.cli import main
from zeroboard.messages import LANGUAGES, Language, say
from zeroboard.paths import Paths
from zeroboard.runs.registry import read_state
from zeroboard.services import report_html


class Seen(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_run_becomes_a_page_that_needs_nothing(tmp_path: Path, language: Language) -> None:
    for name, run in everything(tmp_path).items():
        page = report_html.make(Paths(tmp_path), run.id, language)
        state = read_state(run)
        seen = Seen(page)
        assert not {"script", "link", "img", "iframe", "object"} & seen.tags, name
        assert not {a for a in seen.attributes if a in ("src", "href") or a.startswith("on")}, name
        assert "url(" not in page and "@import" not in page
        assert say(f"ui.state.{state.state}", language) in page
        text = re.sub(r"<code[^>]*>.*?</code>|<[^>]*>|\{[^}]*\}", " ", page)
        assert not re.search(r"\b(report|ui|check|cli)\.[a-z][a-z.-]+\b", text), name
        assert ("<polyline" in page) == (state.step > 0), name


def test_what_models_and_files_say_is_escaped_and_files_have_their_hash(tmp_path: Path) -> None:
    made = everything(tmp_path)["finished"]
    run = Paths(tmp_path).run(made.id)
    state = read_state(run).model_copy(update={"name": "<script>x</script>"})
    run.state.write_text(state.model_dump_json(), encoding="utf-8")
    odd = run.model / "<b>权重.bin"
    odd.write_bytes(b"weights")
    page = report_html.make(Paths(tmp_path), made.id, "en")
    assert "<script>" not in page and "&lt;script&gt;x" in page
    assert "<b>权重" not in page and "&lt;b&gt;权重.bin" in page
    assert hashlib.sha256(b"weights").hexdigest() in page


def test_the_command_line_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = everything(tmp_path)["finished"]
    file = tmp_path / "报告 1.html"
    assert main(["show", made.id, "--html", str(file), "--cache", str(tmp_path), "--lang", "zh-CN"]) == 0
    assert file.read_text(encoding="utf-8").startswith('<!doctype html>\n<html lang="zh-CN">')
    assert str(file) in capsys.readouterr().err
