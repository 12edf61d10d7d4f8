"""The data card in a browser: files mixed by weight, one that is measured, and rows as the model sees them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Dashboard

pytestmark = pytest.mark.browser

SOON = 60_000


def write(file: Path, letter: str, count: int) -> Path:
    rows = [{"instruction": f"What is {letter}{n}?", "output": f"It is <b>{letter}{n}</b>."} for n in range(count)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def choose(page: Page, field: str, text: str) -> None:
    box = page.locator(f"#f-data-{field} input").first
    box.fill(text)
    box.press("Enter")
    box.blur()


@pytest.fixture
def opened(page: Page, scripted: Dashboard, tiny_model_folder: Path, tmp_path: Path) -> Page:
    """The form with the tiny model and six rows of data."""
    page.goto(f"{scripted.url}/en/")
    expect(page.locator("#zb-plan .zb-plan")).to_be_visible(timeout=SOON)
    page.locator("#f-model-path input").fill(str(tiny_model_folder))
    page.locator("#f-model-path input").press("Enter")
    choose(page, "path", str(write(tmp_path / "first.jsonl", "a", 6)))
    expect(page.locator("#facts-data")).to_contain_text("6 / 6", timeout=SOON)
    return page


def test_files_are_mixed_measured_and_seen_as_the_model_sees_them(opened: Page, tmp_path: Path) -> None:
    page, facts = opened, opened.locator("#facts-data")
    page.locator("#f-data-more > button").click()
    expect(page.locator("#zb-mixed-1")).to_be_hidden()
    choose(page, "more-0-path", str(write(tmp_path / "second.jsonl", "b", 4)))
    expect(facts).to_contain_text("10 / 10", timeout=SOON)
    expect(page.locator("#zb-mixed-1")).to_be_visible(timeout=SOON)
    page.locator("#f-data-more-0-weight input").fill("0.5")
    page.locator("#f-data-more-0-weight input").blur()
    choose(page, "eval_path", str(write(tmp_path / "held.jsonl", "a", 8)))
    expect(facts).to_contain_text("Evaluation file: held.jsonl", timeout=SOON)
    expect(facts).to_contain_text("evaluation-overlap")
    expect(page.locator("#card-data > button").first).to_contain_text("first.jsonl + 1", timeout=SOON)

    # tokenised by the code of the training: what an epoch sees, the histogram, a row in colour
    expect(page.locator("#zb-plan")).to_contain_text("unknown until tokenised")
    page.click("#zb-tokenise")
    sample = page.locator("#zb-sample .zb-sample")
    expect(sample).to_be_visible(timeout=SOON)
    tokens = page.locator("#zb-token-facts")
    expect(tokens.locator("tbody tr")).to_contain_text(["first.jsonl", "second.jsonl"])
    expect(tokens.locator("tbody tr").nth(1)).to_contain_text(re.compile(r"0\.5\s*4\s*2"))
    expect(tokens.locator(".zb-bars li").first).to_be_attached()
    expect(page.locator("#zb-plan")).not_to_contain_text("unknown until tokenised")
    expect(sample.locator("mark.tok.learned")).to_have_text(["It is <b>a0</b>."])
    expect(sample.locator(".tok.special").first).to_have_text("<|im_start|>")
    expect(page.locator("#zb-sample .zb-legend")).to_contain_text("learned")

    # rows are numbered through the files; the numbers of the tokens stand there on request
    page.locator("#zb-row input").fill("7")
    page.locator("#zb-row input").press("Enter")
    expect(sample.locator("mark.tok.learned")).to_have_text(["It is <b>b0</b>."], timeout=SOON)
    page.locator("#zb-ids input").check()
    expect(page.locator("#zb-sample .zb-sample.ids .id").first).to_have_text("1", timeout=SOON)

    # what was chosen is still there when the page comes back
    page.reload()
    expect(page.locator("#facts-data")).to_contain_text("10 / 10", timeout=SOON)
    expect(page.locator("#f-data-eval_path input").first).to_have_value(str(tmp_path / "held.jsonl"))
    expect(page.locator("#f-data-more > button")).to_contain_text("further files: 1", timeout=SOON)


def test_a_mix_that_cannot_be_is_told_where_it_was_typed(opened: Page, tmp_path: Path) -> None:
    page, why = opened, opened.locator("#f-data-more .zb-field-error")
    page.locator("#f-data-more > button").click()
    choose(page, "more-0-path", str(tmp_path / "first.jsonl"))
    expect(why).to_contain_text("named twice", timeout=SOON)
    expect(page.locator("#zb-start")).to_be_disabled()
    for weight in ("0", "-1", "1e30"):
        page.locator("#f-data-more-0-weight input").fill(weight)
        expect(why).to_contain_text("data.more[1].weight", timeout=SOON)
    page.locator("#f-data-more-0-weight input").fill("2")
    for place, words in ((tmp_path / "none", "none"), (Path("/proc/self/environ"), "operating system")):
        choose(page, "more-0-path", str(place))
        expect(why.filter(has_text=words).first).to_be_visible(timeout=SOON)
    choose(page, "more-0-path", str(write(tmp_path / "second.jsonl", "b", 2)))
    expect(why).to_have_count(0, timeout=SOON)
    expect(page.locator("#zb-start")).to_be_enabled()


@pytest.mark.parametrize(("lang", "scheme"), [("en", "dark"), ("zh-CN", "light")])
def test_the_card_fits_a_phone(browser: Browser, scripted: Dashboard, lang: str, scheme: str) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, locale=lang, color_scheme="dark" if scheme == "dark" else "light"
    )
    page = context.new_page()
    page.goto(f"{scripted.url}/{lang}/")
    page.locator("#f-data-more > button").click(timeout=SOON)
    weight = page.locator("#f-data-more-0-weight input")
    expect(weight).to_be_visible(timeout=SOON)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    box = weight.bounding_box()
    assert box is not None and box["width"] > 100 and box["x"] + box["width"] <= 390
    context.close()
