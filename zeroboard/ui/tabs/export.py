"""Export: what came out, whether it is sound, and a question to it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from zeroboard.contract.reports import VerifyReport
from zeroboard.contract.requests import Progress
from zeroboard.errors import NotFound
from zeroboard.services import results
from zeroboard.services.results import Output
from zeroboard.ui.controls import Choice
from zeroboard.ui.desk import Desk
from zeroboard.ui.panels import chat as chat_panel
from zeroboard.ui.views import export as view
from zeroboard.ui.wiring import Changes, html


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTab:
    """The tab's components."""

    outputs: gr.Radio
    """Run id of what is chosen."""
    report: gr.HTML
    check: gr.Button
    chosen: gr.Column
    """What is there only when something is chosen."""
    chat: chat_panel.ChatPanel


def build(desk: Desk) -> ExportTab:
    """The components."""
    with gr.Row(elem_classes=["zb-export"], equal_height=False):
        with gr.Column(scale=3, min_width=280, elem_classes=["zb-list"]):
            outputs = Choice(
                choices=[], label=desk.say("ui.export.outputs"), elem_id="zb-outputs", elem_classes=["zb-pick"]
            )
        with gr.Column(scale=8, min_width=320):
            report = gr.HTML(
                html(view.nothing(desk.lang)), elem_id="zb-report", elem_classes=["zb-panel"], min_height=160
            )
            with gr.Column(visible=False) as chosen:
                with gr.Row(elem_classes=["zb-actions"]):
                    check = gr.Button(
                        desk.say("ui.button.verify"), elem_id="zb-verify", size="md", scale=0, min_width=180
                    )
                chat = chat_panel.build(desk)
    return ExportTab(outputs=outputs, report=report, check=check, chosen=chosen, chat=chat)


def wire(desk: Desk, tab: ExportTab, opens: list[Any]) -> None:
    """Handlers and wiring; `opens` are the events upon which the list is read anew."""

    def show_outputs(run_id: str, chosen: str | None) -> Changes:
        """The list; chosen is what was, else the result of the run that is open, else the newest."""
        found = results.outputs(desk.paths)
        ids = [o.run_id for o in found]
        pick = chosen if chosen in ids else run_id if run_id in ids else ids[0] if ids else None
        choices = [(output_label(desk, o), o.run_id) for o in found]
        return {tab.outputs: gr.update(choices=choices, value=pick), **_show(desk, tab, pick)}

    def choose_output(chosen: str | None) -> Changes:
        return _show(desk, tab, chosen)

    def verify_output(chosen: str | None) -> Iterator[Changes]:
        output = find(desk, chosen)
        yield {tab.report: html(view.checking(desk.lang, None))}
        for step in _verified(output.folder, output.base):
            if isinstance(step, VerifyReport):
                yield {tab.report: html(view.report(step, desk.lang))}
            else:
                yield {tab.report: html(view.checking(desk.lang, step))}

    shown = [tab.report, tab.chosen]
    for number, event in enumerate(opens):
        handler = show_outputs if number == 0 else _again(show_outputs, number)
        desk.wire.on(event, handler, inputs=[desk.run, tab.outputs], outputs=[tab.outputs, *shown])
    desk.wire.on(tab.outputs.input, choose_output, inputs=[tab.outputs], outputs=shown)
    desk.wire.on(tab.check.click, verify_output, inputs=[tab.outputs], outputs=shown)
    chat_panel.wire(desk, tab.chat, tab.outputs)


def _show(desk: Desk, tab: ExportTab, chosen: str | None) -> Changes:
    if chosen is None:
        return {tab.report: html(view.nothing(desk.lang)), tab.chosen: gr.update(visible=False)}
    output = find(desk, chosen)
    report = desk.shared.snapshot(output.run_id).report
    if report is None:
        page = view.unverified(str(output.folder), desk.lang)
    else:
        page = view.report(report, desk.lang, f"{desk.base}/files/runs/{output.run_id}/report")
    return {tab.report: html(page), tab.chosen: gr.update(visible=True)}


def find(desk: Desk, run_id: str | None) -> Output:
    """The output of a run by the id that the browser sent; raises `NotFound` for one that is not among them."""
    for output in results.outputs(desk.paths):
        if output.run_id == run_id:
            return output
    raise NotFound("error.no-result", run=run_id or "")


def output_label(desk: Desk, output: Output) -> str:
    """Run, kind and verdict in a line."""
    kind = desk.say(f"ui.kind.{output.kind}") if output.kind else desk.say("ui.kind.unchecked")
    verdict = desk.say(f"ui.verdict.{output.verdict}") if output.verdict else desk.say("ui.verdict.none")
    return f"{output.name or output.run_id} — {kind} · {verdict}"


def _again(handler: Any, number: int) -> Any:
    """The same handler under a name of its own: two events of one name collide."""

    def other(*args: Any) -> Changes:
        found: Changes = handler(*args)
        return found

    other.__name__ = f"{handler.__name__}_{number}"
    return other


def _verified(folder: Path, base: Path | None) -> Iterator[Progress | VerifyReport]:
    """Progress on its way, then the report; an exception of the verification is raised here."""
    lines: queue.Queue[Progress | VerifyReport | Exception] = queue.Queue()

    def work() -> None:
        try:
            lines.put(results.verify(folder, base=base, load=True, on_progress=lines.put))
        except Exception as error:  # noqa: BLE001 - carried to the thread that shows it
            lines.put(error)

    threading.Thread(target=work, name="verify", daemon=True).start()
    while True:
        line = lines.get()
        if isinstance(line, Exception):
            raise line
        yield line
        if isinstance(line, VerifyReport):
            return
