"""The whole way, in a browser: choose → preview → start → live → reload → stop → verified → ask.

One real run for all of it. What needs none is looked at on the dashboard with scripted runs.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Dashboard
from zeroboard.paths import RunPaths

pytestmark = pytest.mark.browser

SOON = 20_000
"""Milliseconds for what the page does by itself."""
TRAINED = 400_000
"""Milliseconds for a tiny training, with offload's compilation where it is the first, on two busy cores."""


def choose(page: Page, field: str, text: str) -> None:
    """Types into a field and leaves it."""
    box = page.locator(f"#f-{field} input, #f-{field} textarea").first
    box.fill(text)
    box.press("Enter")


def open_form(page: Page, url: str, model: Path, data: Path) -> None:
    page.goto(url)
    expect(page.locator("#zb-plan .zb-plan")).to_be_visible(timeout=SOON)
    choose(page, "model-path", str(model))
    choose(page, "data-path", str(data))
    expect(page.locator("#card-model")).to_contain_text(model.name, timeout=SOON)
    expect(page.locator("#card-data")).to_contain_text("24 / 24", timeout=SOON)


@pytest.mark.train
@pytest.mark.timeout(900)
def test_from_the_form_to_an_answer(
    dashboard: Dashboard, browser: Browser, page: Page, tiny_model_folder: Path, tiny_data_file: Path
) -> None:
    open_form(page, dashboard.url, tiny_model_folder, tiny_data_file)
    plan = page.locator("#zb-plan")

    # stage 2 with offload, far more epochs than anybody waits for; the plan follows
    page.locator('#f-zero-stage input[value="2"]').check()
    page.locator("#f-zero-offload input").check()
    page.locator("#card-train > button").click()
    page.locator("#f-train-epochs input").fill("5000")
    expect(plan).to_contain_text("ds_z2_offload_config.json", timeout=SOON)
    expect(plan).to_contain_text("ready to start")

    # preview: the command, and the file with its telling lines; nothing is started
    page.click("#zb-preview")
    preview = page.locator("#zb-preview-page")
    expect(preview).to_contain_text("torch.distributed.run", timeout=SOON)
    expect(preview.locator(".line.on", has_text='"stage": 2')).to_be_visible()
    expect(preview.locator(".line.on", has_text='"device": "cpu"')).to_be_visible()
    previewed = preview.locator("#zb-file-ds_z2_offload_config-json").input_value()
    run_id = preview.locator("dd code").first.inner_text()
    folder = dashboard.cache / "runs" / run_id
    assert '"state": "planned"' in (folder / "state.json").read_text()

    # started from there: the very files that were previewed, and the address names the run
    page.click("#zb-preview-start")
    expect(page).to_have_url(re.compile(f"run={run_id}"), timeout=60_000)
    assert (folder / "ds_z2_offload_config.json").read_text() == previewed
    progress = page.locator("#zb-progress")
    expect(progress).to_contain_text(run_id, timeout=SOON)
    expect(page.locator("#zb-stop")).to_be_visible(timeout=SOON)

    # mid-run: the dashboard dies and comes back; a reload and another browser show the same run
    address = page.url
    dashboard.kill()
    page.goto("about:blank")  # a page that is open reloads by itself, in the middle of whatever comes next
    dashboard.start()
    page.goto(address)
    expect(progress).to_contain_text(run_id, timeout=SOON)
    other = browser.new_page()
    other.goto(f"{dashboard.url}/zh-CN/?run={run_id}")
    expect(other.locator("#zb-progress")).to_contain_text(run_id, timeout=SOON)
    other.close()

    # it trains: the loss is drawn, the proof was measured for both ranks, the ranks write
    expect(progress).to_contain_text("Training: step", timeout=TRAINED)
    expect(page.locator("#zb-charts polyline").nth(1)).to_be_attached(timeout=SOON)
    proof = page.locator("#zb-proof")
    expect(proof).to_contain_text("in effect", timeout=SOON)
    expect(proof.locator("tbody tr")).to_have_count(3)
    page.get_by_role("tab", name="Logs", exact=True).click()
    expect(page.locator("#zb-log pre")).not_to_be_empty(timeout=SOON)

    # stopped on second thoughts: what was learned is saved
    page.click("#zb-stop")
    expect(page.locator("#zb-stop-discard")).to_be_visible(timeout=SOON)
    page.click("#zb-stop-back")
    expect(page.locator("#zb-stop-discard")).to_be_hidden(timeout=SOON)
    page.click("#zb-stop")
    page.click("#zb-stop-save")
    expect(progress.locator(".zb-track")).to_contain_text("Asked", timeout=SOON)
    expect(progress.locator(".zb-badge", has_text="stopped")).to_be_visible(timeout=TRAINED)

    # verified, and it answers
    page.click("#zb-to-export")
    report = page.locator("#zb-report")
    expect(report).to_contain_text("LoRA adapter", timeout=SOON)
    expect(report.locator(".zb-badge.fail")).to_have_count(0)
    page.locator("#zb-question textarea, #zb-question input").fill("What is stage 3?")
    page.click("#zb-send")
    expect(page.locator("#zb-chat-status")).to_contain_text("tokens in", timeout=120_000)
    expect(page.locator("#zb-chat-tuned")).to_contain_text("What is stage 3?")
    page.click("#zb-unload")
    expect(page.locator("#zb-chat-status")).to_contain_text("memory is free", timeout=60_000)


def test_a_problem_leads_to_its_field(
    scripted: Dashboard, page: Page, tiny_model_folder: Path, tiny_data_file: Path, scripted_runs: dict[str, RunPaths]
) -> None:
    open_form(page, scripted.url, tiny_model_folder, tiny_data_file)
    before = sorted((scripted.cache / "runs").glob("*"))
    page.locator("#card-train > button").click()
    box = page.locator("#f-train-micro_batch input")
    box.fill("0")
    error = page.locator("#f-train-micro_batch .zb-field-error")
    expect(error).to_contain_text("Micro-batch is 0", timeout=SOON)  # by its label, not by its key
    page.locator("#card-train > button").click()
    expect(box).not_to_be_visible()
    page.locator("#zb-plan a.goto").first.click()
    expect(box).to_be_focused(timeout=SOON)
    expect(page.locator("#zb-start")).to_be_disabled()
    expect(page.locator("#zb-why")).to_contain_text("(1)")
    assert sorted((scripted.cache / "runs").glob("*")) == before


def test_a_changed_form_marks_the_preview_stale(
    scripted: Dashboard, page: Page, tiny_model_folder: Path, tiny_data_file: Path
) -> None:
    open_form(page, scripted.url, tiny_model_folder, tiny_data_file)
    page.click("#zb-preview")
    expect(page.locator("#zb-preview-page")).to_contain_text("torch.distributed.run", timeout=SOON)
    expect(page.locator("#zb-stale")).to_be_empty()
    expect(page.locator("#zb-preview-start")).to_be_enabled()
    page.get_by_role("tab", name="Train", exact=True).click()
    page.locator('#f-zero-stage input[value="3"]').check()
    page.get_by_role("tab", name="Preview", exact=True).click()
    expect(page.locator("#zb-stale")).to_contain_text("ZeRO stage", timeout=SOON)
    expect(page.locator("#zb-preview-start")).to_be_disabled()  # it would start something else than what is shown


def test_the_chinese_page_on_a_phone_has_start_at_hand(scripted: Dashboard, browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, locale="zh-CN")
    page = context.new_page()
    page.goto(scripted.url)
    expect(page).to_have_url(re.compile("/zh-CN/"))
    expect(page.locator("#zb-plan .zb-plan")).to_be_visible(timeout=SOON)
    expect(page.locator("#zb-start")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    for name in ("预览", "导出", "训练"):
        page.get_by_role("tab", name=name, exact=True).click()
    page.get_by_role("link", name="English").click()
    expect(page).to_have_url(re.compile("/en/"))
    context.close()


def test_an_address_of_no_run_is_told_in_a_sentence(scripted: Dashboard, page: Page) -> None:
    page.goto(f"{scripted.url}/en/?run=no-such-run")
    expect(page.locator("#zb-notice")).to_contain_text("no-such-run", timeout=SOON)
    expect(page.locator("#zb-plan .zb-plan")).to_be_visible(timeout=SOON)
