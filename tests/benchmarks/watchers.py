"""Eight browsers that watch one run: how late the slowest of them shows a step, and how soon Stop answers.

    python -m tests.benchmarks.watchers [CLIENTS SECONDS]      8 clients for 30 seconds unless told; needs Chromium

A dashboard in a process of its own, a scripted run that makes a step a second with 100,000 behind it, so many clients
that speak to the dashboard as the page's own code does (its timer's event each second, the answer as a stream), and one
real page in a headless browser. The delay is from the moment at which a step stood in the run's files to that at which
a client had it, or the page showed it. Stop is pressed on the page while all watch: counted are the seconds until the
question stands there, and from the answer until the question has gone, which is when the request lies in the run's
folder. Eight people's browsers are on eight machines, so eight real ones here would measure this machine's drawing.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
from playwright.sync_api import Page, sync_playwright

from tests.benchmarks.tick import Course
from tests.browser.conftest import QUIET, Dashboard, free_port

CLIENTS, SECONDS = 8, 30
BEHIND = 100_000
LATE = 2.0
"""Seconds after which every browser has to have a step."""
STOP = 1.0
"""Seconds in which Stop has to answer."""
LOADING = 120_000
"""Milliseconds for a page to come up while others do."""
STEP = re.compile(r"(\d[\d,]*) / [\d,]+")
WATCH = r"""() => {
  window.zbSeen = [];
  const look = () => {
    const found = /(\d[\d,]*) \/ [\d,]+/.exec(document.querySelector("#zb-progress").innerText);
    if (!found) return;
    const step = Number(found[1].replaceAll(",", ""));
    const last = window.zbSeen.at(-1);
    if (!last || last[0] !== step) window.zbSeen.push([step, Date.now() / 1000]);
  };
  new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true});
  look();
}"""


class Client(threading.Thread):
    """A browser without a screen: opens the run, then asks each second, one question at a time."""

    def __init__(self, url: str, run_id: str, number: int) -> None:
        super().__init__(daemon=True)
        self._http = httpx.Client(base_url=url, timeout=60)
        self._run_id, self._session = run_id, f"client{number}"
        self._events: dict[str, Any] = {}
        self.halt = threading.Event()
        self.seen: list[tuple[int, float]] = []
        """(step, when it was there first)."""
        self.looks = 0

    def open(self) -> None:
        config = self._http.get("/en/config").json()
        self._events = {event["api_name"]: event for event in config["dependencies"] if event.get("api_name")}
        self._call("en_open_run", [], f"?run={self._run_id}")

    def run(self) -> None:
        asked = [None, None, None, "", "all", True]  # what the server itself keeps, then the log's controls
        due = time.monotonic()
        while not self.halt.is_set():
            found = STEP.search(str(self._call("en_tick", asked)[0]))
            self.looks += 1
            if found is not None:
                self.seen.append((int(found[1].replace(",", "")), time.time()))
            due = max(due + 1.0, time.monotonic())
            self.halt.wait(due - time.monotonic())

    def _call(self, name: str, data: list[Any], query: str = "") -> list[Any]:
        body = {"fn_index": self._events[name]["id"], "data": data, "session_hash": self._session,
                "event_data": None, "trigger_id": None}  # fmt: skip
        self._http.post(f"/en/gradio_api/queue/join{query}", json=body).raise_for_status()
        with self._http.stream("GET", "/en/gradio_api/queue/data", params={"session_hash": self._session}) as lines:
            for line in lines.iter_lines():
                if "process_completed" in line:
                    output: list[Any] = json.loads(line.removeprefix("data: "))["output"]["data"]
                    return output
        raise AssertionError("the dashboard gave no answer")


class Training(threading.Thread):
    """The run that goes on, a step a second, until `halt` is set."""

    def __init__(self, course: Course) -> None:
        super().__init__(daemon=True)
        self._course = course
        self.halt = threading.Event()
        self.told: dict[int, float] = {}
        """Step → when it stood in the files, in seconds since the epoch."""

    def run(self) -> None:
        while not self.halt.wait(1.0):
            self._course.goes_on()
            self.told[self._course.step] = time.time()


def delays(told: dict[int, float], seen: list[tuple[int, float]]) -> list[float]:
    """Seconds from each step to the first moment at which it, or a later one, was shown; seen as it was at the end."""
    found = []
    for step, when in told.items():
        shown = [at for number, at in seen if number >= step]
        found.append(max(0.0, min(shown, default=time.time()) - when))
    return found


def stop(page: Page) -> tuple[float, float]:
    """Presses Stop and answers the question: (seconds to the question, seconds from the answer until it has gone)."""
    began = time.monotonic()
    page.click("#zb-stop", timeout=LOADING)
    page.locator("#zb-stop-save").wait_for(state="visible", timeout=LOADING)
    asked = time.monotonic()
    page.click("#zb-stop-save", timeout=LOADING)
    page.locator("#zb-stop-save").wait_for(state="hidden", timeout=LOADING)
    return asked - began, time.monotonic() - asked


def watch(cache: Path, clients: int, seconds: float, chromium: str) -> tuple[list[float], tuple[float, float], float]:
    """(the delay of each step for each watcher, the two answers of Stop, share of a core that the dashboard took)."""
    course = Course(cache, BEHIND, 2 * BEHIND)
    dashboard = Dashboard(cache=cache, port=free_port())
    training = Training(course)
    dashboard.start()
    assert dashboard.process is not None
    served = psutil.Process(dashboard.process.pid)
    watching = [Client(dashboard.url, course.run.id, number) for number in range(clients)]
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
            page = browser.new_page()
            page.goto(f"{dashboard.url}/en/?run={course.run.id}", timeout=LOADING)
            page.locator("#zb-stop").wait_for(state="visible", timeout=LOADING)
            page.evaluate(WATCH)
            for client in watching:
                client.open()
            for thread in (training, *watching):
                thread.start()
            began, before = time.monotonic(), sum(served.cpu_times()[:2])
            time.sleep(seconds)
            share = (sum(served.cpu_times()[:2]) - before) / (time.monotonic() - began)
            told = {step: at for step, at in training.told.items() if at < time.time() - LATE}
            late = [delays(told, page.evaluate("window.zbSeen")), *(delays(told, client.seen) for client in watching)]
            answers = stop(page)
            assert course.run.stop_request.is_file(), "no request to stop lies in the run's folder"
            browser.close()
            return list(itertools.chain(*late)), answers, share
    finally:
        for thread in (training, *watching):
            thread.halt.set()
        for client in watching:
            if client.is_alive():
                client.join(30)
        dashboard.kill()


def main(argv: list[str] | None = None) -> int:
    given = [int(word) for word in (sys.argv[1:] if argv is None else argv)]
    clients, seconds = given or (CLIENTS, SECONDS)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("no Chromium here: install Debian's package `chromium` (apt install chromium)", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as cache:
        late, (asked, answered), share = watch(Path(cache), clients, seconds, chromium)
    late.sort()
    print(f"{clients} clients and a page: the slowest had a step after {late[-1]:.2f} s (at most {LATE:.0f})", end="")
    print(f", half of them within {late[len(late) // 2]:.2f} s; the dashboard took {100 * share:.0f} % of a core")
    print(f"Stop: asked back after {asked:.2f} s, done {answered:.2f} s after the answer (at most {STOP:.0f} each)")
    return int(late[-1] > LATE or max(asked, answered) > STOP)


if __name__ == "__main__":
    sys.exit(main())
