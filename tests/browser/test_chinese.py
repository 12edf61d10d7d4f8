"""The Chinese page, looked at everywhere: no English sentence of ours is left, and no key stands in place of one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Dashboard
from tests.ui.test_views import KEY
from zeroboard.messages import sentences
from zeroboard.paths import RunPaths

pytestmark = pytest.mark.browser

SOON = 20_000

VISIBLE = """() => {
  const skipped = "code, pre, script, style, textarea, [lang=en], .zb-sr, .zb-file, .zb-lines .code, .zb-log";
  const found = [];
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) { if (node.data.trim()) found.push(node.data.trim()); return; }
    if (node.nodeType !== Node.ELEMENT_NODE || node.matches(skipped)) return;
    if (!node.checkVisibility()) return;
    for (const name of ["placeholder", "aria-label", "title"]) {
      const value = node.getAttribute(name);
      if (value && node.closest("#zb-header, #zb-tabs")) found.push(value);
    }
    node.childNodes.forEach(walk);
  };
  walk(document.body);
  return found;
}"""

FOUR_WORDS = re.compile(r"(?:\b[A-Za-z][a-z]+ ){3,}[A-Za-z][a-z]+")
"""Four English words in a row: a sentence, or the beginning of one."""

DATA = ("CUDA out of memory", "SmolLM2", "ZeroBoard demo")
"""In the middle of what is no sentence of ours: what an exception said, names."""


@pytest.fixture(scope="module")
def runs(scripted_runs: dict[str, RunPaths]) -> dict[str, RunPaths]:
    return scripted_runs


@pytest.fixture(scope="module")
def page(scripted: Dashboard, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="zh-CN", base_url=scripted.url)
    yield context.new_page()
    context.close()


def leftovers(page: Page) -> list[str]:
    """Pieces of the visible page that ought to be Chinese."""
    english = {
        text
        for key, text in sentences("en").items()
        if len(text) > 11 and "{" not in text and " " in text and sentences("zh-CN")[key] != text
    }
    found = []
    for piece in page.evaluate(VISIBLE):
        if any(word in piece for word in DATA):
            continue
        if FOUR_WORDS.search(piece) or KEY.search(piece) or piece in english:
            found.append(piece)
    return found


def test_the_look_would_find_english(page: Page) -> None:
    page.goto("/en/")
    expect(page.locator("#zb-plan .zb-plan")).to_be_visible(timeout=SOON)
    assert len(leftovers(page)) >= 10


def test_every_tab_and_every_state_is_chinese(page: Page, runs: dict[str, RunPaths]) -> None:
    page.goto("/zh-CN/")
    expect(page.locator("#zb-plan .zb-plan")).to_be_visible(timeout=SOON)
    for label in page.locator("#zb-faces button.label-wrap").all():  # all cards, and what is advanced in them
        if label.is_visible() and "open" not in (label.get_attribute("class") or ""):
            label.click()
    assert leftovers(page) == []
    for tab in page.locator("#zb-faces > .tab-wrapper").get_by_role("tab").all():
        tab.click()
        page.wait_for_timeout(600)
        assert leftovers(page) == []
    for tab in page.locator("#zb-tabs > .tab-wrapper").get_by_role("tab").all():
        tab.click()
        page.wait_for_timeout(800)
        assert leftovers(page) == []


@pytest.mark.parametrize("state", ["starting", "running", "failed", "finished"])
def test_a_run_in_each_state_is_chinese(page: Page, runs: dict[str, RunPaths], state: str) -> None:
    page.goto(f"/zh-CN/?run={runs[state].id}")
    expect(page.locator("#zb-progress")).to_contain_text(runs[state].id, timeout=SOON)
    for tab in page.locator(".zb-inner > .tab-wrapper").get_by_role("tab").all():
        if tab.is_visible():
            tab.click()
            page.wait_for_timeout(400)
            assert leftovers(page) == []


def test_export_is_chinese_with_its_folds_open_and_its_errors(page: Page, runs: dict[str, RunPaths]) -> None:
    page.goto(f"/zh-CN/?run={runs['finished'].id}")
    expect(page.locator("#zb-progress")).to_contain_text(runs["finished"].id, timeout=SOON)
    page.get_by_role("tab", name="导出", exact=True).click()
    expect(page.locator("#zb-report")).to_contain_text("LoRA", timeout=SOON)
    page.locator("#zb-report details > summary").click()
    for fold in ("#zb-foreign", "#zb-sampling", "#zb-prompt-fold"):
        page.locator(f"{fold} > button").click()
    page.click("#zb-send")
    expect(page.locator("#zb-notice [role=alert]")).to_be_visible(timeout=SOON)
    assert leftovers(page) == []
    page.locator("#zb-foreign-path input, #zb-foreign-path textarea").fill("/nowhere")
    page.click("#zb-foreign-look")
    expect(page.locator("#zb-notice")).to_contain_text("/nowhere", timeout=SOON)
    assert leftovers(page) == []
