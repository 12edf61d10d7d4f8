"""Handlers: what they change is laid out in order, and what goes wrong is told in a sentence."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from zeroboard.contract.problems import Problem
from zeroboard.errors import NotFound, Refused
from zeroboard.paths import Paths
from zeroboard.ui.wiring import LOG, open_log, told

ONE, TWO, NOTICE = "one", "two", "notice"
SHOWN = (ONE, TWO, NOTICE)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    open_log(Paths(tmp_path))
    yield tmp_path / "logs" / "dashboard.log"
    for handler in LOG.handlers:
        handler.close()
    LOG.handlers[:] = []


def test_changes_go_to_their_components_and_the_rest_stays() -> None:
    assert told(lambda: {TWO: 2}, SHOWN, "en")() == [gr.skip(), 2, ""]
    assert told(lambda: None, SHOWN, "en", quiet=True)() == [gr.skip(), gr.skip(), gr.skip()]


def test_a_generator_streams_and_tells_where_it_broke() -> None:
    def work() -> Iterator[dict[str, int]]:
        yield {ONE: 1}
        raise NotFound("error.run-not-found", run="gone")

    first, last = told(work, SHOWN, "en")()
    assert first[0] == 1
    assert "gone" in last[2]
    assert 'role="alert"' in last[2]


def test_what_was_refused_is_told_problem_by_problem() -> None:
    def work() -> dict[str, int]:
        raise Refused([Problem(code="model-missing", field="model.path", params={"path": "<b>x</b>"})])

    page = told(work, SHOWN, "zh-CN")()[2]
    assert 'data-goto="model.path"' in page
    assert "<b>x</b>" not in page


def test_an_unexpected_error_is_an_id_on_the_page_and_a_traceback_in_the_log(log: Path) -> None:
    def broken() -> dict[str, int]:
        raise ValueError("secret detail")

    first = told(broken, SHOWN, "en")()[2]
    again = told(broken, SHOWN, "en")()[2]
    number = first.split("id ")[1][:8]
    assert "secret" not in first
    assert first == again
    written = log.read_text()
    assert number in written
    assert "secret detail" in written
    assert written.count("Traceback") == 1  # a timer would write it each second


def test_a_handler_that_changes_what_it_does_not_own_is_found_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger=LOG.name)
    LOG.propagate = True
    assert "id " in told(lambda: {"strange": 1}, SHOWN, "en")()[2]


def test_the_signature_stays_so_that_gradio_hands_in_the_request() -> None:
    import inspect

    def work(run: str, request: gr.Request) -> dict[str, Any]:
        return {}

    assert list(inspect.signature(told(work, SHOWN, "en")).parameters) == ["run", "request"]


def test_half_a_surrogate_pair_does_not_reach_a_handler() -> None:
    seen: list[Any] = []

    def work(*given: Any) -> dict[str, Any]:
        seen.extend(given)
        return {ONE: given[0]}

    answer = told(work, SHOWN, "en")("a\ud83d", {"k\udc00": ["\ud800", 3, None]}, "显存")
    assert seen == ["a?", {"k?": ["?", 3, None]}, "显存"]
    answer[0].encode()  # what is sent back can be sent
