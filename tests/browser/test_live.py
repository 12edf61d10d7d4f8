"""The live page at work: findings that fill the form, logs that are searched and held, headings, and a quiet timer."""

from __future__ import annotations

import re
import time
from itertools import pairwise

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Dashboard
from zeroboard.paths import RunPaths

pytestmark = pytest.mark.browser

SOON = 20_000

HEADINGS = """() => [...document.querySelectorAll("h1, h2, h3, h4")]
  .filter((h) => h.checkVisibility()).map((h) => Number(h.tagName[1]))"""


def opened(page: Page, server: Dashboard, run: RunPaths, lang: str = "en") -> Page:
    page.goto(f"{server.url}/{lang}/?run={run.id}")
    expect(page.locator("#zb-progress")).to_contain_text(run.id, timeout=SOON)
    return page


def tab(page: Page, name: str | re.Pattern[str]) -> None:
    page.locator("#zb-inner").get_by_role("tab", name=name).click()


def test_a_remedy_fills_the_form_and_starts_nothing(
    page: Page, scripted: Dashboard, scripted_runs: dict[str, RunPaths]
) -> None:
    opened(page, scripted, scripted_runs["failed"])
    before = sorted(path.name for path in (scripted.cache / "runs").iterdir())
    expect(page.locator("#zb-findings")).to_be_visible(timeout=SOON)  # one that failed is opened for its reason
    page.get_by_role("button", name="What was found").click()
    found = page.locator("#zb-findings")
    expect(found.locator(".zb-finding.root")).to_have_attribute("data-code", "cuda-oom", timeout=SOON)
    expect(found).to_contain_text("rank_1.log:")
    found.get_by_role("button", name=re.compile("Halve the maximum length")).click()
    expect(page.locator("#zb-notice")).to_contain_text("Maximum length", timeout=SOON)
    expect(page.locator("#zb-start")).to_be_visible(timeout=SOON)
    expect(page.locator("#card-data > button")).to_contain_text("128", timeout=SOON)
    assert sorted(path.name for path in (scripted.cache / "runs").iterdir()) == before


def test_a_log_is_searched_by_word_and_level_and_held(
    page: Page, scripted: Dashboard, scripted_runs: dict[str, RunPaths]
) -> None:
    run = scripted_runs["running"]
    opened(page, scripted, run)
    tab(page, "Logs")
    log = page.locator("#zb-log pre")
    expect(log).to_contain_text("line 599", timeout=SOON)
    page.locator("#zb-log-search input, #zb-log-search textarea").fill("LINE 57")
    expect(log.locator("mark")).to_have_count(11, timeout=SOON)  # 57 and 570 to 579
    page.locator("#zb-log-search input, #zb-log-search textarea").fill("")
    page.locator('#zb-log-level input[value="warning"]').check()
    expect(log).to_have_text(re.compile(r"^\s*\d+\s+WARNING: the tokenizer has no padding token$"), timeout=SOON)
    page.locator('#zb-log-level input[value="all"]').check()
    expect(log).to_contain_text("line 599", timeout=SOON)
    page.locator("#zb-log-follow input").uncheck()
    with run.rank_log(0).open("a") as stream:
        stream.write("one more line\n")
    time.sleep(2.5)
    expect(log).not_to_contain_text("one more line")
    page.locator("#zb-log-follow input").check()
    expect(log).to_contain_text("one more line", timeout=SOON)
    log.evaluate("log => { log.scrollTop = 200; }")  # as one who reads
    page.wait_for_timeout(200)
    with run.rank_log(0).open("a") as stream:
        stream.write("and another\n")
    expect(log).to_contain_text("and another", timeout=SOON)
    page.wait_for_timeout(200)
    assert log.evaluate("log => log.scrollTop") == 200


def test_headings_skip_no_level_and_clocks_run(
    page: Page, scripted: Dashboard, scripted_runs: dict[str, RunPaths]
) -> None:
    opened(page, scripted, scripted_runs["running"])
    expect(page.locator("#zb-proof table")).to_be_visible(timeout=SOON)
    clock = page.locator("#zb-progress [data-clock][data-pace='1']")
    first = clock.inner_text()
    expect(clock).not_to_have_text(first, timeout=5000)
    for name in ("Live", "Set up", "Preview", "Export"):
        page.get_by_role("tab", name=name, exact=True).locator("visible=true").click()
        page.wait_for_timeout(500)
        levels = page.evaluate(HEADINGS)
        assert levels[0] == 1 and len(levels) > 1
        assert all(after - before <= 1 for before, after in pairwise(levels)), (name, levels)


def test_the_list_of_runs_never_says_that_there_is_none(
    page: Page, scripted: Dashboard, scripted_runs: dict[str, RunPaths]
) -> None:
    page.goto(f"{scripted.url}/en/")
    page.get_by_role("tab", name="Runs", exact=True).click()
    table = page.locator("#zb-runs")
    expect(table).not_to_contain_text("No runs yet")
    expect(table).to_contain_text("finished", timeout=3000)


def test_nothing_is_wider_than_a_phone(
    browser: Browser, scripted: Dashboard, scripted_runs: dict[str, RunPaths]
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = opened(context.new_page(), scripted, scripted_runs["failed"], "zh-CN")
    for name in ("证据", re.compile("诊断"), "日志"):
        tab(page, name)
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()
