"""The runs: a table whose lines open a run."""

from __future__ import annotations

from dataclasses import dataclass

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
    table = gr.HTML(html(view.runs((), "", desk.lang)), elem_id="zb-runs", elem_classes=["zb-panel"], min_height=240)
    return RunsPanel(table=table, mark=gr.State(0), timer=gr.Timer(EVERY))


def wire(desk: Desk, panel: RunsPanel) -> None:
    def list_runs(run_id: str, mark: int) -> Changes:
        found = html(view.runs(desk.shared.runs.get(), run_id, desk.lang, desk.shared.verdicts()))
        return {} if hash(found) == mark else {panel.table: found, panel.mark: hash(found)}

    desk.wire.on(
        panel.timer.tick, list_runs, inputs=[desk.run, panel.mark], outputs=[panel.table, panel.mark], quiet=True
    )
