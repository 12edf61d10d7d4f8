"""Models and data of the hub are fetched from the page: refused, with a token, watched, ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Dashboard, free_port
from tests.fakes.hub import COMMIT, Model, hub
from zeroboard.services.fetching import OFFLINE

pytestmark = pytest.mark.browser

SOON = 20_000
ROWS = b"".join(b'{"instruction": "Hi %d", "output": "Hello"}\n' % n for n in range(3))


def test_a_gated_model_comes_with_a_token_and_a_large_one_is_ended(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model_folder: Path
) -> None:
    for name in OFFLINE:
        monkeypatch.delenv(name, raising=False)
    files = {file.name: file.read_bytes() for file in tiny_model_folder.iterdir() if file.is_file()}
    with hub("hf_right") as known:
        monkeypatch.setenv("HF_ENDPOINT", known.endpoint)
        known.models["someone/gated"] = Model(files, gated=True)
        known.models["someone/large"] = Model({**files, "model.safetensors": bytes(24 << 20)})
        dashboard = Dashboard(cache=tmp_path / "cache", port=free_port())
        dashboard.start()
        context = browser.new_context(base_url=dashboard.url)
        try:
            page = context.new_page()
            page.goto("/en/")
            status = page.locator("#zb-fetch-status")
            path = page.locator("#f-model-path input")
            expect(page.locator("#zb-plan .zb-plan")).to_be_attached(timeout=SOON)
            expect(page.locator("#zb-fetch")).to_be_hidden()
            path.fill("hub:someone/gated")
            path.press("Enter")
            expect(page.locator("#zb-plan")).to_contain_text("has not been fetched", timeout=SOON)
            expect(page.locator("#zb-start")).to_be_disabled()
            page.locator("#zb-fetch").click()
            expect(status).to_contain_text("those who show an access token", timeout=SOON)
            page.locator("#zb-fetch-token input").fill("hf_right")
            page.locator("#zb-fetch").click()
            expect(status).to_contain_text(COMMIT[:12], timeout=SOON)
            expect(page.locator("#zb-start")).to_be_enabled(timeout=SOON)
            expect(page.locator("#facts-model")).to_contain_text("LlamaForCausalLM", timeout=SOON)
            expect(page.locator("#zb-fetch-token input")).to_have_value("")

            known.datasets["someone/rows"] = Model({"a.jsonl": ROWS, "b.jsonl": ROWS})
            data, told = page.locator("#f-data-path input"), page.locator("#zb-fetch-data-status")
            expect(page.locator("#zb-fetch-data")).to_be_hidden()
            data.fill("hub:someone/rows")
            data.press("Enter")
            expect(page.locator("#zb-plan")).to_contain_text("has not been fetched", timeout=SOON)
            page.locator("#zb-fetch-data").click()
            expect(told).to_contain_text("a.jsonl, b.jsonl", timeout=SOON)
            data.fill("hub:someone/rows/b.jsonl")
            data.press("Enter")
            expect(told).not_to_contain_text("a.jsonl", timeout=SOON)
            page.locator("#zb-fetch-data").click()
            expect(told).to_contain_text(COMMIT[:12], timeout=SOON)
            expect(page.locator("#facts-data")).to_contain_text("3 / 3", timeout=SOON)
            expect(page.locator("#zb-start")).to_be_enabled(timeout=SOON)

            known.stalls = True
            path.fill("hub:someone/large")
            path.press("Enter")
            expect(page.locator("#zb-plan")).to_contain_text("has not been fetched", timeout=SOON)
            page.locator("#zb-fetch").click()
            expect(status.locator('[role="progressbar"]')).to_have_attribute("aria-valuenow", "42", timeout=SOON)
            page.locator("#zb-fetch-stop").click()
            expect(status).to_contain_text("Stopped", timeout=SOON)
            expect(page.locator("#zb-fetch")).to_be_visible()
            assert "hf_right" not in page.content() + str(context.storage_state())
        finally:
            context.close()
            dashboard.kill()
    assert not [f for f in (tmp_path / "cache").rglob("*") if f.is_file() and b"hf_right" in f.read_bytes()]
