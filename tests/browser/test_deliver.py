"""Deliver: a run's result becomes a folder of plain transformers, watched in the page; another export is ended."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Dashboard
from tests.engine.results import make_adapter
from tests.ui.scripted import finished, planned
from zeroboard.paths import Paths, RunPaths
from zeroboard.services import exports

pytestmark = pytest.mark.browser

SOON = 20_000
"""Milliseconds for what the page does by itself."""
DELIVERED = 120_000
"""The same for two engines that start, work and end, on a machine that does other things as well."""

PLAIN = """
import json, sys
from transformers import AutoModelForCausalLM, AutoTokenizer
model, tokenizer = AutoModelForCausalLM.from_pretrained(sys.argv[1]), AutoTokenizer.from_pretrained(sys.argv[1])
asked = tokenizer.apply_chat_template(
    [{"role": "user", "content": "What?"}], add_generation_prompt=True, return_tensors="pt", return_dict=True
)
answer = model.generate(**asked, max_new_tokens=4, do_sample=False)
ours = sorted({name.partition(".")[0] for name in sys.modules} & {"zeroboard", "peft", "deepspeed"})
print(json.dumps({"kind": type(model).__name__, "tokens": answer.shape[1] - asked["input_ids"].shape[1], "ours": ours}))
"""


@pytest.fixture
def trained(scripted: Dashboard, tiny_model_folder: Path) -> Iterator[RunPaths]:
    """A run that has ended with a real adapter, for this test alone among those that the dashboard shows."""
    paths = Paths(scripted.cache)
    run = planned(paths, **{"name": "to-deliver", "model.path": tiny_model_folder})
    finished(run)
    make_adapter(run.model, tiny_model_folder)
    yield run
    shutil.rmtree(run.folder)
    shutil.rmtree(paths.exports)


def test_one_export_is_ended_and_another_loads_in_plain_transformers(
    scripted: Dashboard, page: Page, trained: RunPaths
) -> None:
    paths = Paths(scripted.cache)
    page.goto(f"{scripted.url}/en/?run={trained.id}")
    page.get_by_role("tab", name="Export", exact=True).click()
    panel, progress = page.locator("#zb-deliver"), page.locator("#zb-deliver-progress")
    start, cancel = page.locator("#zb-deliver-start"), page.locator("#zb-deliver-cancel")
    name = page.locator("#zb-deliver-name input, #zb-deliver-name textarea")
    expect(page.locator("#zb-report")).to_contain_text("LoRA adapter", timeout=SOON)
    expect(name).to_have_value("to-deliver", timeout=SOON)
    expect(cancel).to_be_hidden()

    # a name that leads elsewhere is refused, and nothing begins
    name.fill("../out")
    start.click()
    expect(page.locator("#zb-notice")).to_contain_text("../out", timeout=SOON)
    assert not paths.export_jobs.exists()

    # ended while it works: the page says so, and nothing of it is left
    name.fill("ended 早")
    start.click()
    expect(progress.locator('[role="progressbar"]')).to_be_visible(timeout=SOON)
    expect(start).to_be_disabled()
    cancel.click()
    expect(progress).to_contain_text("Nothing of it was left", timeout=DELIVERED)
    expect(cancel).to_be_hidden()
    expect(start).to_be_enabled()
    assert [entry.name for entry in paths.exports.iterdir()] == [".jobs"]

    # merged, in the meantime looked at by a page that was loaded anew
    panel.get_by_label(re.compile("Merged")).check()
    panel.get_by_label("bf16").check()
    name.fill("合并 of it")
    start.click()
    expect(progress.locator('[role="progressbar"]')).to_be_visible(timeout=SOON)
    page.reload()
    page.get_by_role("tab", name="Export", exact=True).click()
    expect(progress).to_contain_text("README.md", timeout=DELIVERED)
    expect(progress.locator(".zb-badge.fail")).to_have_count(0)
    expect(page.locator("#zb-deliver-past")).to_contain_text("合并 of it")
    with page.expect_download() as download:
        progress.locator("a[download]").click()
    assert "合并 of it" in Path(download.value.path()).read_text(encoding="utf-8")
    states = [(state.state, state.problems) for state in exports.list_exports(paths)]
    assert states == [("finished", ()), ("cancelled", ())]

    # by somebody else
    argv = [sys.executable, "-I", "-W", "ignore", "-c", PLAIN, str(paths.exports / "合并 of it")]
    done = subprocess.run(argv, cwd="/", capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"kind": "LlamaForCausalLM", "tokens": 4, "ours": []}
