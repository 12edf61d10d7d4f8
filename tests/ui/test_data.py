"""The data card: how far the judging is, what it came to, and what waits for it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.ui.test_views import KEY, whole
from zeroboard.contract.problems import Problem
from zeroboard.messages import LANGUAGES, Language
from zeroboard.services.judging import Judgement, judge_data
from zeroboard.ui.views import data, plan


@pytest.mark.parametrize("lang", LANGUAGES)
def test_progress_a_stop_and_nothing_are_told(lang: Language) -> None:
    going = whole(data.card(Judgement(done=0.345), lang))
    assert 'aria-valuenow="34"' in going and "34 %" in going and "scaleX(0.345)" in going
    pages = {going, whole(data.card(Judgement(stopped=True), lang)), whole(data.card(Judgement(), lang))}
    assert len(pages) == 3
    assert all(KEY.findall(re.sub(r"<[^>]*>", " ", page)) == [] for page in pages)


def test_a_quotation_cannot_become_part_of_the_page(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [{"instruction": "<script>alert(1)</script>", "output": ""}, {"instruction": "Hi", "output": "Hello"}]
    file.write_text("\n".join(map(json.dumps, rows)))
    page = whole(data.report_card(judge_data(str(file)), "en"))
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert "empty-output" in page and "Row 1:" in page
    assert "Usable as they are: 1, Repaired: 0, Refused: 1" in page


def test_the_files_of_a_folder_are_listed_with_their_rows(tmp_path: Path) -> None:
    row = '{"instruction": "Hi", "output": "Hello"}\n'
    (tmp_path / "a.jsonl").write_text(row * 3)
    (tmp_path / "b.jsonl").write_text(row * 2)
    page = whole(data.report_card(judge_data(str(tmp_path)), "en"))
    assert "a.jsonl" in page and "1 – 3" in page and "4 – 5" in page


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_plan_waits_for_the_data_and_blames_nobody(lang: Language) -> None:
    waits = Judgement(done=0.1).problem("d")
    assert waits is not None
    page = whole(plan.panel(None, (waits,), lang))
    assert 'class="zb-problem' not in page and "zb-badge fail" not in page and "zb-badge warn" in page
    assert plan.why_not((waits,), lang) not in ("", plan.why_not((Problem(code="gpu-busy"),), lang))
    both = whole(plan.panel(None, (waits, Problem(code="data-missing", params={"path": "d"})), lang))
    assert "zb-badge fail" in both
