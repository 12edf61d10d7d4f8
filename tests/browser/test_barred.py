"""A check of the machine that fails bars the start of what is previewed, until what passes is previewed."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Dashboard, free_port
from zeroboard.messages import say

pytestmark = pytest.mark.browser

SOON = 30_000


def test_a_torch_that_cannot_be_imported_bars_the_start_with_its_reason_beside_the_button(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model_folder: Path, tiny_data_file: Path
) -> None:
    broken = tmp_path / "broken" / "torch"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('libcudart.so.13: cannot open shared object file')\n")
    monkeypatch.setenv("PYTHONPATH", str(broken.parent))  # the page itself never imports it
    dashboard = Dashboard(cache=tmp_path / "cache", port=free_port())
    dashboard.start()
    context = browser.new_context(base_url=dashboard.url, locale="zh-CN")
    try:
        page = context.new_page()
        page.goto("/zh-CN/")
        expect(page.locator("#zb-plan .zb-plan")).to_be_attached(timeout=SOON)
        for field, value in (("model", tiny_model_folder), ("data", tiny_data_file)):
            box = page.locator(f"#f-{field}-path input")
            box.fill(str(value))
            box.press("Enter")
        page.locator('#f-zero-stage input[value="2"]').check()
        page.locator("#f-zero-offload input").check()
        expect(page.locator("#zb-preview")).to_be_enabled(timeout=SOON)
        page.click("#zb-preview")
        expect(page.locator("#zb-checks")).to_contain_text("libcudart.so.13", timeout=SOON)
        start, why = page.locator("#zb-preview-start"), page.locator("#zb-preview-why")
        expect(start).to_be_disabled()
        expect(why).to_contain_text(say("ui.preview.start.barred", "zh-CN"))
        expect(page.locator("#zb-preview-page")).not_to_contain_text(say("ui.preview.no-problems", "zh-CN"))
        page.get_by_role("tab", name=say("ui.tab.train", "zh-CN"), exact=True).click()
        page.locator("#card-train > button").click()
        box = page.locator("#f-train-micro_batch input")
        box.fill("1")
        expect(page.locator("#zb-stale")).not_to_be_empty(timeout=SOON)
        box.fill("2")  # as it was previewed: the check has failed all the same
        expect(page.locator("#zb-stale")).to_be_empty(timeout=SOON)
        expect(start).to_be_disabled()

        page.locator("#f-zero-offload input").uncheck()  # what does not need it is not kept from starting
        expect(page.locator("#zb-stale")).not_to_be_empty(timeout=SOON)
        page.click("#zb-preview")
        expect(why).to_contain_text(say("ui.preview.start.hint", "zh-CN"), timeout=SOON)
        expect(start).to_be_enabled()
    finally:
        context.close()
        dashboard.kill()
