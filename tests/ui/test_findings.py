"""Findings on the page: the root cause first, its line, and remedies that set fields."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.ui import scripted
from tests.ui.test_views import whole
from zeroboard.contract.findings import Diagnosis, Evidence, Finding, Remedy
from zeroboard.messages import LANGUAGES, Language
from zeroboard.paths import Paths
from zeroboard.services import prepare
from zeroboard.ui import form
from zeroboard.ui.shared import Shared
from zeroboard.ui.views import findings
from zeroboard.ui.views.difference import change_words


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    return Shared(Paths(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def found(shared: Shared) -> Diagnosis:
    run = scripted.planned(shared.paths)
    scripted.failed(run)
    shown = shared.snapshot(run.id)
    first = shared.findings(shown)
    assert shared.findings(shown) is first  # the logs are looked into once
    return first


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_root_cause_stands_first_with_its_line_and_its_echoes_folded(found: Diagnosis, lang: Language) -> None:
    page = whole(findings.findings(found.findings, found.root, lang, run_id="the-run", base="/b"))
    assert found.root == "cuda-oom"
    assert re.findall('<li class="(zb-finding.*?)"', page)[0] == "zb-finding root"
    assert "logs/rank_1.log:" in page and "/b/files/runs/the-run/logs/rank%201" in page
    assert page.count("data-remedy=") == sum(1 for r in found.findings[0].remedies if r.set)


def test_nothing_found_is_said_in_words() -> None:
    assert "Nothing was noticed" in findings.findings((), None, "en", alive=True)
    assert "Nothing to explain" in findings.findings((), None, "en")


def test_noise_is_named_as_such_and_not_counted() -> None:
    noise = Finding(code="benign", severity="info", says="finding.benign", params={"count": 3, "text": "<i>x</i>"})
    page = whole(findings.findings((noise,), None, "en"))
    assert "harmless" in page and "<i>" not in page
    assert findings.count((noise,)) == 0


def test_a_button_is_taken_at_its_word_only_where_it_still_stands(found: Diagnosis) -> None:
    first = found.findings[0]
    assert findings.remedy_of(found.findings, first.code, str(first.rank), 0) == first.remedies[0]
    for forged in ((first.code, "9", 0), ("loss-nan", first.rank, 0), (first.code, first.rank, 99), (None, None, "x")):
        assert findings.remedy_of(found.findings, *forged) is None


def test_a_remedy_changes_these_fields_of_the_run_s_spec_and_no_others(found: Diagnosis) -> None:
    spec = prepare.default_spec()
    for remedy in found.findings[0].remedies:
        if not remedy.set:
            continue
        mended, problems = form.mended(spec, remedy.set)
        assert mended is not None and problems == ()
        words = change_words(spec, mended, "en")
        assert "→" in words


def test_a_remedy_that_the_spec_refuses_is_told_and_an_empty_list_is_one() -> None:
    spec = prepare.default_spec()
    refused, problems = form.mended(spec, {"train.micro_batch": 0})
    assert refused is None and problems[0].field == "train.micro_batch"
    every, problems = form.mended(spec, {"devices.gpus": None, "devices.count": None})
    assert every is not None and every.devices.gpus == ()


def test_a_log_s_name_follows_from_its_file() -> None:
    assert findings.log_name("logs/rank_12.log") == "rank 12"
    assert findings.log_name("launcher.log") == "launcher"
    assert findings.log_name("events.jsonl") is None


def test_evidence_without_a_line_and_without_a_run_is_no_link() -> None:
    evidence = Evidence(file="somewhere.log", line=None, text="<b>")
    one = Finding(code="loss-nan", says="finding.loss-nan", params={"count": 2}, evidence=evidence,
                  remedies=(Remedy(says="remedy.doctor"),))  # fmt: skip
    page = whole(findings.findings((one,), None, "en"))
    assert "<a" not in page and "&lt;b&gt;" in page and "data-remedy" not in page


def test_what_is_noticed_while_it_runs_is_shown(tmp_path: Path) -> None:
    shared = Shared(Paths(tmp_path))
    run = scripted.planned(shared.paths)
    scripted.running(run)
    assert shared.findings(shared.snapshot(run.id)).findings == ()
    scripted.noticed(run)
    assert [f.code for f in shared.findings(shared.snapshot(run.id)).findings] == ["gpu-idle"]
