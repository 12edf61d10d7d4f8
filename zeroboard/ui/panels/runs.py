"""The runs: a table whose lines open a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from zeroboard.ui.desk import Desk
from zeroboard.ui.views import runs as view
from zeroboard.ui.wiring import Changes, html

EVERY = 3.0
"""Seconds between two looks at the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsPanel:
    table: gr.HTML
    mark: gr.State
    """Hash of what this browser was sent last."""
    timer: gr.Timer


def build(desk: Desk) -> RunsPanel:
    table = gr.HTML(html(view.looking(desk.lang)), elem_id="zb-runs", elem_classes=["zb-panel"], min_height=240)
    return RunsPanel(table=table, mark=gr.State(0), timer=gr.Timer(EVERY))


def wire(desk: Desk, panel: RunsPanel, opened: Callable[..., Any]) -> None:
    """`opened`: the event of the tab being opened, which does not wait for the timer."""

    def list_runs(run_id: str, mark: int) -> Changes:
        found = html(view.runs(desk.shared.runs.get(), run_id, desk.lang, desk.shared.verdicts()))
        return {} if hash(found) == mark else {panel.table: found, panel.mark: hash(found)}

    seen = [panel.table, panel.mark]
    desk.wire.on([panel.timer.tick, opened], list_runs, inputs=[desk.run, panel.mark], outputs=seen, quiet=True)
