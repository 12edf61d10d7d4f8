"""Who gets in, in a browser: the login, and pages of others that would like to use it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Dashboard, free_port

pytestmark = pytest.mark.browser

SOON = 20_000
"""Milliseconds for what the page does by itself."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """A dashboard that asks for a password."""
    found = Dashboard(cache=tmp_path_factory.mktemp("cache"), port=free_port(), auth="ann:correct horse")
    found.start()
    yield found
    found.kill()


def enter(page: Page, password: str) -> None:
    page.fill('input[name="user"]', "ann")
    page.fill('input[name="password"]', password)
    page.keyboard.press("Enter")


def test_the_login_opens_the_page_and_the_logout_closes_it(guarded: Dashboard, page: Page) -> None:
    page.goto(f"{guarded.url}/en/?run=kept-over-the-login")
    expect(page).to_have_url(f"{guarded.url}/login?run=kept-over-the-login")
    expect(page.locator('input[name="user"]')).to_be_focused()
    enter(page, "wrong")
    expect(page.get_by_role("alert")).to_have_text("Name or password is wrong.")
    enter(page, "correct horse")
    expect(page).to_have_url(f"{guarded.url}/en/?run=kept-over-the-login")
    expect(page.locator("#zb-plan .zb-plan")).to_be_visible(timeout=SOON)
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(f"{guarded.url}/login")
    page.goto(f"{guarded.url}/en/")
    expect(page).to_have_url(f"{guarded.url}/login")


def test_the_login_speaks_the_browser_s_language_and_can_be_switched(guarded: Dashboard, browser: Browser) -> None:
    context = browser.new_context(locale="zh-CN", viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(guarded.url)
    expect(page.get_by_role("button", name="登录")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("link", name="English").click()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
    context.close()


def test_a_name_that_is_not_ours_is_refused(guarded: Dashboard, page: Page) -> None:
    """As after DNS rebinding: a strange name that leads to this machine."""
    answer = page.goto(f"http://evil.localhost:{guarded.port}/health")  # browsers take *.localhost for loopback
    assert answer is not None and answer.status == 421


def test_a_strange_page_can_neither_send_nor_frame(guarded: Dashboard, page: Page, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        f'<form id="f" method="post" action="{guarded.url}/login"><input name="user" value="ann">'
        f'<input name="password" value="correct horse"></form><iframe src="{guarded.url}/login"></iframe>'
    )
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    handler.log_message = lambda *_: None  # type: ignore[attr-defined]
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as strange:
        threading.Thread(target=strange.serve_forever, daemon=True).start()
        page.goto(f"http://127.0.0.1:{strange.server_port}/")
        assert all(frame.query_selector("form.zb-login") is None for frame in page.frames)
        with page.expect_response(re.compile("/login$")) as sent:
            page.evaluate("document.getElementById('f').submit()")
        assert sent.value.request.method == "POST"
        assert sent.value.status == 403
        strange.shutdown()
