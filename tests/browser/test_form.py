"""The form and the runs in a browser, without training: what is kept, loaded, brought, and refused."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import Dashboard, free_port
from tests.ui.scripted import STEPS, move, say, step_event
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs.locks import device_lock
from zeroboard.runs.registry import read_state

pytestmark = pytest.mark.browser

SOON = 20_000


@pytest.fixture(scope="module")
def runs(scripted_runs: dict[str, RunPaths]) -> dict[str, RunPaths]:
    return scripted_runs


@pytest.fixture(scope="module")
def server(scripted: Dashboard) -> Dashboard:
    return scripted


@pytest.fixture
def context(browser: Browser, server: Dashboard) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US", base_url=server.url)
    yield made
    made.close()


def opened(context: BrowserContext, address: str = "/en/") -> Page:
    page = context.new_page()
    page.goto(address)
    expect(page.locator("#zb-plan .zb-plan")).to_be_attached(timeout=SOON)
    return page


def test_the_form_keeps_its_values_over_a_reload_and_a_change_of_language(context: BrowserContext) -> None:
    page = opened(context)
    page.locator('#f-zero-stage input[value="3"]').check()
    page.locator("#f-name input, #f-name textarea").fill("kept")
    page.locator("#card-train > button").click()
    page.locator("#f-train-epochs input").fill("2.5")
    for address in ("/en/", "/zh-CN/"):  # at once, as an impatient person would
        page.goto(address)
        expect(page.locator('#f-zero-stage input[value="3"]')).to_be_checked(timeout=SOON)
        expect(page.locator("#card-train > button")).to_contain_text("2.5", timeout=SOON)
        expect(page.locator("#f-name input, #f-name textarea")).to_have_value("kept")


def test_a_model_that_is_not_among_the_choices_is_judged_and_told_by_its_field(context: BrowserContext) -> None:
    page = opened(context)
    box = page.locator("#f-model-path input").first
    box.fill("somebody/some-model")
    box.press("Enter")
    expect(page.locator("#f-model-path .zb-field-error")).to_contain_text("somebody/some-model", timeout=SOON)
    expect(page.locator("#zb-start")).to_be_disabled()
    expect(page.locator("#zb-preview")).to_be_disabled()
    box.fill("SmolLM2-135M-Instruct")
    box.press("Enter")
    expect(page.locator("#zb-plan")).to_contain_text("ready to start", timeout=SOON)
    expect(page.locator("#zb-start")).to_be_enabled()


def test_settings_are_loaded_and_bad_ones_are_refused_with_every_reason(
    context: BrowserContext, tmp_path: Path, tiny_model_folder: Path
) -> None:
    page = opened(context)
    good = tmp_path / "spec.yaml"
    good.write_text(
        f"model: {{path: {tiny_model_folder}}}\ndata: {{path: demo-zh}}\nzero: {{stage: 1, offload: none}}\n"
    )
    send(page, "#zb-load-settings", good)
    expect(page.locator("#card-model > button")).to_contain_text(tiny_model_folder.name, timeout=SOON)
    expect(page.locator('#f-zero-stage input[value="1"]')).to_be_checked(timeout=SOON)
    expect(page.locator("#card-data > button")).to_contain_text("demo-zh")
    bad = tmp_path / "bad.yaml"
    bad.write_text("model: {path: x}\ndata: {path: y}\nzero: {stage: 9}\ntrain: {epochs: often, sed: 1}\n")
    send(page, "#zb-load-settings", bad)
    notice = page.locator("#zb-notice")
    for word in ("ZeRO stage", "Epochs", "train.sed"):
        expect(notice).to_contain_text(word, timeout=SOON)
    expect(page.locator('#f-zero-stage input[value="1"]')).to_be_checked()


def test_a_data_file_is_brought_judged_and_another_kind_refused(
    context: BrowserContext, tmp_path: Path, server: Dashboard
) -> None:
    page = opened(context)
    rows = tmp_path / "mine.jsonl"
    rows.write_text('{"instruction": "Hi", "output": "Hello"}\nnot json\n')
    send(page, "#zb-upload", rows)
    expect(page.locator("#facts-data")).to_contain_text("1 / 2", timeout=SOON)
    expect(page.locator("#facts-data")).to_contain_text("rows 2", timeout=SOON)
    kept = [path.name for path in (server.cache / "data").iterdir()]
    assert kept == ["mine.jsonl"]
    expect(page.locator("#zb-start")).to_be_disabled()
    page.get_by_label("Train without the 1 of 2 records").check()
    expect(page.locator("#facts-data")).to_contain_text("1 / 2")
    expect(page.locator("#zb-start")).to_be_enabled(timeout=SOON)
    picture = tmp_path / "picture.jsonl"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    send(page, "#zb-upload", picture)
    expect(page.locator("#zb-notice")).to_contain_text("PNG", timeout=SOON)
    assert [path.name for path in (server.cache / "data").iterdir()] == kept
    page.locator("#zb-uploads > button").click()
    page.get_by_label("mine.jsonl ·").check()
    page.locator("#zb-uploads-delete").click()
    expect(page.locator("#zb-uploads")).to_be_hidden(timeout=SOON)
    assert list((server.cache / "data").iterdir()) == []


def test_columns_that_nobody_knows_are_told_in_the_page(context: BrowserContext, tmp_path: Path) -> None:
    page = opened(context)
    table = tmp_path / "table.csv"
    table.write_text("Anliegen,Entgegnung\nHi,Hallo\nTag,Guten Tag\n")
    send(page, "#zb-upload", table)
    expect(page.locator("#facts-data")).to_contain_text("0 / 2", timeout=SOON)
    for ours, theirs in (("instruction", "Anliegen"), ("output", "Entgegnung")):
        page.locator(f"#f-data-columns-{ours} input").click()
        expect(page.get_by_role("listbox")).to_have_count(1)  # that of the choice before is gone
        page.get_by_role("option", name=theirs).click()
    expect(page.locator("#facts-data")).to_contain_text("2 / 2", timeout=SOON)
    expect(page.locator("#facts-data")).to_contain_text("Entgegnung → output")
    expect(page.locator("#zb-start")).to_be_enabled(timeout=SOON)


def test_a_deepspeed_file_of_ones_own_fills_the_form_or_is_refused(
    context: BrowserContext, tmp_path: Path, server: Dashboard, schema_cache: Path
) -> None:
    shutil.copytree(schema_cache / "schemas", server.cache / "schemas", dirs_exist_ok=True)
    page = opened(context)
    page.locator("#card-zero .zb-advanced > button").click()
    mine = tmp_path / "mine.json"
    zero = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True, "sub_group_size": 4096, "overlap_comm": True}
    mine.write_text(json.dumps({"train_micro_batch_size_per_gpu": 3, "zero_optimization": zero, "steps_per_print": 9}))
    send(page, "#zb-own-json", mine)
    expect(page.locator('#f-zero-stage input[value="3"]')).to_be_checked(timeout=SOON)
    expect(page.locator("#f-zero-sub_group_size input, #f-zero-sub_group_size textarea")).to_have_value("4096")
    expect(page.locator("#f-zero-overlap_comm input")).to_be_checked()
    expect(page.locator("#card-zero")).to_contain_text("steps_per_print")
    mine.write_text(json.dumps({"zero_optimization": {"stage": 7}, "prescale_gradients": True}))
    send(page, "#zb-own-json", mine)
    for word in ("zero_optimization.stage", "prescale_gradients"):
        expect(page.locator("#zb-notice")).to_contain_text(word, timeout=SOON)
    huge = b'{"x": "' + b"a" * (50 << 20) + b'"}'
    refused = {
        b'{"gradient_clipping": NaN}': "NaN",
        b"{ // why\n}": "comment",
        huge: f"{len(huge)} bytes",
        b"[1]": "list",
    }
    for content, word in refused.items():
        mine.write_bytes(content)
        send(page, "#zb-own-json", mine)
        expect(page.locator("#zb-notice")).to_contain_text(word, timeout=SOON)
    expect(page.locator('#f-zero-stage input[value="3"]')).to_be_checked()
    mine.write_bytes(b"\xef\xbb\xbf" + json.dumps({"train_micro_batch_size_per_gpu": 5}).encode())
    send(page, "#zb-own-json", mine)
    expect(page.locator("#card-train > button")).to_contain_text("5 ×", timeout=SOON)


def send(page: Page, button: str, file: Path) -> None:
    with page.expect_file_chooser() as chooser:
        page.click(button)
    chooser.value.set_files(str(file))


def test_a_start_while_the_devices_are_busy_names_the_run_and_leads_to_it(
    context: BrowserContext, runs: dict[str, RunPaths], server: Dashboard
) -> None:
    page = opened(context)
    lock = device_lock(Paths(server.cache), "cpu")
    assert lock.take(runs["running"].id)
    try:
        page.click("#zb-start")
        notice = page.locator("#zb-notice [role=alert]")
        expect(notice).to_contain_text(runs["running"].id, timeout=SOON)
        notice.get_by_role("link").click()
        expect(page).to_have_url(re.compile(f"run={runs['running'].id}"))
        expect(page.locator("#zb-progress")).to_contain_text(runs["running"].id, timeout=SOON)
    finally:
        lock.release()


def test_two_browsers_and_a_reload_show_the_same_run_as_it_goes_on(
    context: BrowserContext, browser: Browser, runs: dict[str, RunPaths], server: Dashboard
) -> None:
    run = runs["running"]
    address = f"/en/?run={run.id}"
    first = opened(context, address)
    other = browser.new_context(viewport={"width": 390, "height": 844}, locale="zh-CN", base_url=server.url)
    second = opened(other, f"/zh-CN/?run={run.id}")
    for page in (first, second):
        expect(page.locator("#zb-progress")).to_contain_text(f"30 / {STEPS}", timeout=SOON)
    before = heights(first)
    say(run, step_event(31, time.time()))
    move(run, "running", step=31)
    for page in (first, second):
        expect(page.locator("#zb-progress")).to_contain_text(f"31 / {STEPS}", timeout=SOON)
    assert heights(first) == before  # nothing jumps
    first.reload()
    expect(first.locator("#zb-progress")).to_contain_text(f"31 / {STEPS}", timeout=SOON)
    assert read_state(run).step == 31
    other.close()


def heights(page: Page) -> list[float]:
    """Where the parts of the live view begin."""
    places = "#zb-progress, .zb-action-bar, #zb-machine, #zb-charts, #zb-proof"
    found: list[float] = page.eval_on_selector_all(places, "all => all.map(e => e.getBoundingClientRect().top)")
    return found


def test_empty_states_lead_on(browser: Browser, tmp_path: Path) -> None:
    empty = Dashboard(cache=tmp_path / "cache", port=free_port())
    empty.start()
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US", base_url=empty.url)
    try:
        page = opened(context)
        for name in ("Live", "Runs"):
            page.get_by_role("tab", name=name, exact=True).click()
            page.get_by_role("button", name="Set up a run").locator("visible=true").click()
            expect(page.locator("#zb-start")).to_be_visible(timeout=SOON)
        page.get_by_role("tab", name="Preview", exact=True).click()
        page.get_by_role("button", name="Preview the form as it is").click()
        expect(page.locator("#zb-preview-page")).to_contain_text("torch.distributed.run", timeout=SOON)
        with page.expect_download() as download:
            page.locator("#zb-preview-page a[download]").first.click()
        saved = tmp_path / "saved.json"
        download.value.save_as(saved)
        assert '"zero_optimization"' in saved.read_text()
    finally:
        context.close()
        empty.kill()
