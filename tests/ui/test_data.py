"""The data card: how far the judging is, what it came to, and what waits for it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.ui.test_views import KEY, whole
from zeroboard.contract.mix import DataPart, Mix
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
def test_mixed_files_are_counted_each_and_the_one_that_is_measured_apart(tmp_path: Path, lang: Language) -> None:
    row = '{"instruction": "%s", "output": "Hello"}\n'
    for name, rows in (("a", [row % 1, row % 2]), ("b", [row % 3, "{}\n"]), ("c", [row % 1, row % 4])):
        (tmp_path / f"{name}.jsonl").write_text("".join(rows))
    more, held_out = (DataPart(path=str(tmp_path / f"{name}.jsonl")) for name in "bc")
    report = judge_data(str(tmp_path / "a.jsonl"), mix=Mix(more=(more,), held_out=held_out))
    page = whole(data.report_card(report, lang))
    assert "<details" in page and " open>" in page, "what was asked for stands open"
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", page)
    assert cells == ["a.jsonl", "Alpaca", "1 – 2", "2", "0", "0", "b.jsonl", "Alpaca", "3 – 4", "1", "0", "1"]
    measured = page.split("zb-measured")[1]
    assert "c.jsonl" in measured and "evaluation-overlap" in measured and "2 / 2" in measured
    assert KEY.findall(re.sub(r"<[^>]*>", " ", page)) == []
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"prompt": "q", "chosen": "a", "rejected": "b"}\n')
    refused = judge_data(str(tmp_path / "a.jsonl"), mix=Mix(more=(DataPart(path=str(pairs)),)))
    colon = ": " if lang == "en" else "："
    assert f"pairs.jsonl{colon}" in whole(data.report_card(refused, lang))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_plan_waits_for_the_data_and_blames_nobody(lang: Language) -> None:
    waits = Judgement(done=0.1).problem("d")
    assert waits is not None
    page = whole(plan.panel(None, (waits,), lang))
    assert 'class="zb-problem' not in page and "zb-badge fail" not in page and "zb-badge warn" in page
    assert plan.why_not((waits,), lang) not in ("", plan.why_not((Problem(code="gpu-busy"),), lang))
    both = whole(plan.panel(None, (waits, Problem(code="data-missing", params={"path": "d"})), lang))
    assert "zb-badge fail" in both
