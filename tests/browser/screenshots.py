"""Pictures for README and guide, of the real page on a real run: `make screenshots`.

python -m tests.browser.screenshots [CACHE]

Trains the demo first, unless the newest run in CACHE (default: `zeroboard-pictures` in the temporary folder, so that no
picture shows anybody's own paths) has finished.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.conftest import QUIET, ROOT, Dashboard, free_port
from zeroboard.messages import LANGUAGES, Language, say
from zeroboard.paths import Paths
from zeroboard.services import runs

IMAGES = ROOT / "docs" / "images"
LARGEST = 300_000
"""Bytes of a picture."""
SOON = 60_000
"""Milliseconds, on a machine that may be busy."""
ANSWERED = 300_000
"""The same for two answers on a CPU, the loading included."""


ANONYMOUS = """(root) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(root, "/opt/zeroboard");
}"""
"""Where this copy of the program lies is nobody's business."""


def finished_run(cache: Path) -> str:
    """The id of a finished demo, trained now if there is none."""
    done = [run.id for run in runs.list_runs(Paths(cache)) if run.state == "finished"] if cache.is_dir() else []
    if not done:
        command = [sys.executable, "-m", "zeroboard", "train", "demo", "--cache", str(cache)]
        subprocess.run(command, cwd=ROOT, check=True)
        done = [run.id for run in runs.list_runs(Paths(cache)) if run.state == "finished"]
    return done[0]


def take(page: Page, name: str, height: int = 900) -> None:
    """What the window shows, at this height, into a file."""
    page.set_viewport_size({"width": 1280, "height": height})
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement?.blur(); window.scrollTo(0, 0)")
    page.evaluate(ANONYMOUS, str(ROOT))
    page.wait_for_timeout(700)
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}  {size / 1024:.0f} KiB")
    assert size <= LARGEST, f"{path} has {size} bytes"


def pictures(browser: Browser, url: str, run: str, lang: Language, scheme: str) -> None:
    """All pages in one language; the dark ones only of what the README shows."""
    dark = scheme == "dark"
    ending = ("" if lang == "en" else f".{lang}") + ("-dark" if dark else "")
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, locale=lang, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()

    def tab(key: str) -> None:
        page.get_by_role("tab", name=say(key, lang), exact=True).click()

    page.goto(f"{url}/{lang}/?run={run}")
    expect(page.locator("#zb-proof table")).to_be_visible(timeout=SOON)
    take(page, f"live{ending}", 1240)
    if not dark:
        tab("ui.tab.setup")
        for card, wanted in (("model", False), ("data", False), ("zero", True)):
            fold = page.locator(f"#card-{card} > button")
            if ("open" in (fold.get_attribute("class") or "").split()) != wanted:
                fold.click()
        page.locator('#f-zero-stage input[value="2"]').check()
        expect(page.locator("#zb-plan .zb-plan")).to_be_visible(timeout=SOON)
        page.wait_for_timeout(2500)
        take(page, f"train{ending}")
        page.click("#zb-preview")
        expect(page.locator("#zb-preview-page .line.on").first).to_be_visible(timeout=SOON)
        take(page, f"preview{ending}", 1100)
    tab("ui.tab.export")
    expect(page.locator("#zb-report table")).to_be_visible(timeout=SOON)
    page.locator("#zb-question textarea, #zb-question input").first.fill(
        "What does stage 3 shard?" if lang == "en" else "ZeRO stage 3 切分什么？"
    )
    page.click("#zb-send")
    expect(page.locator("#zb-figures-tuned p")).to_be_visible(timeout=ANSWERED)
    take(page, f"export{ending}", 1240)
    context.close()


def main() -> None:
    cache = Path(sys.argv[1] if len(sys.argv) > 1 else Path(tempfile.gettempdir()) / "zeroboard-pictures").absolute()
    run = finished_run(cache)
    IMAGES.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("No Chromium here: install the Debian package chromium.")
    dashboard = Dashboard(cache=cache, port=free_port())
    dashboard.start()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
            for lang in LANGUAGES:
                pictures(browser, dashboard.url, run, lang, "light")
            pictures(browser, dashboard.url, run, "en", "dark")
            browser.close()
    finally:
        dashboard.kill()


if __name__ == "__main__":
    main()
