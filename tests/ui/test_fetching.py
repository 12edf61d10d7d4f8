"""What is fetched from a hub, and what is told of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from zeroboard.contract.problems import Problem
from zeroboard.errors import Refused
from zeroboard.paths import Paths
from zeroboard.runs.verbs import Cancelled
from zeroboard.services.fetching import Coming, Job
from zeroboard.ui.panels.fetching import named
from zeroboard.ui.views.fetching import status


def ended(error: Exception | None) -> Job:
    job = Job(error=error)
    job.ended.set()
    return job


def test_nothing_is_said_where_nobody_asked() -> None:
    assert status(None, None, "en") is None


def test_it_is_told_in_bytes() -> None:
    assert "progressbar" not in str(status(Job(), None, "en"))
    found = str(status(Job(coming=Coming(done=512 << 20, total=2 << 30)), None, "en"))
    assert 'aria-valuenow="25"' in found and "512.0 MiB of 2.0 GiB" in found


def test_more_than_was_promised_is_not_more_than_all() -> None:
    assert Coming(done=30, total=20).share == 1.0
    assert Coming(done=3, total=0).share is None


def test_an_end_says_why() -> None:
    gated = Problem(code="hub-gated", params={"repository": "a/<b>", "page": "https://hub/a/<b>", "token": "HF_TOKEN"})
    found = str(status(ended(Refused([gated])), None, "en"))
    assert "a/&lt;b&gt;" in found and "https://hub/a/" in found
    assert "已停止" in str(status(ended(Cancelled()), None, "zh-CN"))


def test_what_comes_can_be_ended_and_then_the_next_is_fetched(tmp_path: Path) -> None:
    jobs: dict[str, Job] = {}
    fetching = SimpleNamespace(look=lambda text, kind: jobs.get(text))
    desk: Any = SimpleNamespace(paths=Paths(tmp_path), shared=SimpleNamespace(fetching=fetching))
    values = {"model.path": " hub:a/m ", "data.path": "hub:a/first ", "data.more.3.path": "hub:a/second"}
    values["data.eval_path"] = "held.jsonl"
    assert named(desk, "model", values) == "hub:a/m", "as the spec reads it"
    assert named(desk, "dataset", values) == "hub:a/first"
    jobs["hub:a/second"] = Job()
    assert named(desk, "dataset", values) == "hub:a/second"
    jobs["hub:a/second"] = ended(None)
    assert named(desk, "dataset", values) == "hub:a/first"
    assert named(desk, "dataset", {"data.path": None, "data.eval_path": None}) == ""
