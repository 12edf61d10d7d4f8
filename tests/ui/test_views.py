"""The views: the right words and figures, everything escaped, the same size while a run grows."""

from __future__ import annotations

import html.parser
import re
from pathlib import Path

import pytest

from tests.ui.scripted import everything
from zeroboard.contract.host import HostFacts
from zeroboard.messages import LANGUAGES, Language
from zeroboard.paths import RunPaths
from zeroboard.runs.snapshot import Snapshot, SnapshotReader
from zeroboard.services import judging, prepare
from zeroboard.services.logs import LogTail
from zeroboard.ui.views import (
    curves,
    data,
    export,
    findings,
    header,
    live,
    logs,
    markup,
    numbers,
    plan,
    preview,
    proof,
    runs,
)  # fmt: skip

HOST = HostFacts(
    hostname="lab-1", cpu_count=2, memory_total=8 << 30, memory_available=6 << 30, disk_total=1 << 40, disk_free=1 << 39
)
KEY = re.compile(r"\b(ui|field|problem|check|kind|proof|plan|error)\.[a-z][a-z0-9_-]+(\.[a-z0-9_-]+)*\b")
"""What a sentence without a translation would look like: its key. (Dotted keys of the spec begin otherwise.)"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunPaths]:
    return everything(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def shown(made: dict[str, RunPaths]) -> dict[str, Snapshot]:
    return {name: SnapshotReader(run).read() for name, run in made.items()}


class Balance(html.parser.HTMLParser):
    """Finds elements that are not closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("br", "hr", "input", "img", "meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def whole(page: str) -> str:
    """The page, having checked that it is well formed and that no key is visible in it."""
    balance = Balance()
    balance.feed(str(page))
    assert balance.open == []
    text = re.sub(r"<[^>]*>", " ", re.sub(r"<code.*?</code>|<pre.*?</pre>", " ", str(page), flags=re.S))
    assert KEY.findall(text) == []
    return str(page)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("state", ["planned", "starting", "running", "failed", "finished"])
def test_every_state_is_drawn_in_words(shown: dict[str, Snapshot], state: str, lang: Language) -> None:
    now = shown[state]
    for page in (
        live.progress(now, lang),
        curves.charts(now, now.history, lang),
        live.outcome(now, lang),
        proof.proof(now.proof, now.ranks, lang),
        findings.findings(now.findings, None, lang),
        runs.runs((now.state,), "", lang),
        header.chips(host=HOST, live=(now.state,), run_id=now.state.id, lang=lang, base=""),
    ):
        whole(page)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_plan_is_drawn_in_words(shown: dict[str, Snapshot], lang: Language) -> None:
    made = shown["planned"].plan
    assert made is not None
    spec = prepare.default_spec()
    whole(plan.panel(made, made.problems, lang))
    whole(preview.page(made, lang, "planned"))
    whole(plan.model_card(made, lang))
    whole(data.report_card(judging.judge_data("demo-en"), lang))
    for card in ("model", "data", "method", "train", "zero"):
        assert KEY.findall(plan.summary(card, spec, made, lang)) == []


@pytest.mark.parametrize("lang", LANGUAGES)
def test_empty_states_say_what_to_do(lang: Language) -> None:
    for page in (
        live.nothing(lang),
        preview.nothing(lang),
        export.nothing(lang),
        logs.nothing(lang),
        runs.runs((), "", lang),
    ):
        assert "zb-empty" in whole(page)


def test_what_comes_from_outside_is_escaped(shown: dict[str, Snapshot]) -> None:
    page = whole(live.outcome(shown["failed"], "en"))
    assert "<b>Tried</b>" not in page
    assert "&lt;b&gt;Tried" in page
    end = LogTail(text="<script>alert(1)</script>", size=10, lines=1, count=1, numbers=(7,), chosen=True)
    for search in ("", "alert", "<scr"):
        told = whole(logs.tail(end, run_id="r", name="rank 0", search=search, base="", lang="en"))
        assert ("<script>" not in told and "<mark>" in told) or not search


def test_the_failed_run_names_the_rank_and_its_exception(shown: dict[str, Snapshot]) -> None:
    page = live.outcome(shown["failed"], "en")
    assert "OutOfMemoryError" in page
    assert "Traceback" in page


def test_the_proof_shows_every_rank_beside_the_promise(shown: dict[str, Snapshot]) -> None:
    page = proof.proof(shown["running"].proof, (), "en")
    assert page.count("522.5 MiB") == 3
    assert "in effect" in page


def test_the_command_is_wrapped_by_argument_and_still_the_command(shown: dict[str, Snapshot]) -> None:
    import shlex

    made = shown["planned"].plan
    assert made is not None
    text = preview.command(made.argv)
    assert shlex.split(text.replace("\\\n", " ")) == list(made.argv)
    assert "--nproc-per-node 2 \\" in text


def test_the_lines_that_decide_are_pointed_out(shown: dict[str, Snapshot]) -> None:
    made = shown["planned"].plan
    assert made is not None
    page = preview.file("ds_z2_config.json", made.files["ds_z2_config.json"], made, "en")
    noted = re.findall(r'class="line on"><span class="code">(.*?)</span>', page)
    assert any("stage" in line for line in noted)
    assert any("train_batch_size" in line for line in noted)
    assert not any("clipping" in line for line in noted)


def test_a_file_is_shown_byte_for_byte(shown: dict[str, Snapshot]) -> None:
    import html as entities

    made = shown["planned"].plan
    assert made is not None
    for name, content in made.files.items():
        copied = re.search(r"<textarea[^>]*>(.*?)</textarea>", preview.file(name, content, made, "en"), re.S)
        assert copied is not None
        assert entities.unescape(copied[1]) == content


def test_numbers_carry_their_units() -> None:
    assert numbers.mib(547_828_992, "en") == "522.5 MiB"
    assert numbers.size(3 << 30, "en") == "3.0 GiB"
    assert numbers.rate(0.001, "en") == "1e-3"
    assert numbers.rate(2.5e-4, "en") == "2.5e-4"
    assert numbers.millions(134_515_008, "en") == "134.5 M"
    assert numbers.duration(185, "en") == "3 min 05 s"
    assert numbers.duration(None, "en") == "n/a"


def test_tags_escape_attributes_and_children() -> None:
    made = markup.tag("a", '<"&', href='x" onclick="y', data_on=True, class_=None)
    assert made == '<a href="x&#34; onclick=&#34;y" data-on>&lt;&#34;&amp;</a>'


def test_long_paths_are_shortened_with_the_whole_on_hover(tmp_path: Path) -> None:
    path = str(tmp_path / ("deep" * 40))
    page = markup.short_path(path)
    assert f'title="{path}"' in page
    assert "…" in page


def test_what_stands_between_backticks_is_code_and_stays_escaped() -> None:
    text = markup.worded("Set `data.<x>` to 2, or use `--set`.")
    assert text == "Set <code>data.&lt;x&gt;</code> to 2, or use <code>--set</code>."
    assert markup.worded("`a`") == "<code>a</code>" and markup.worded("<b>") == "&lt;b&gt;" and markup.worded("") == ""
