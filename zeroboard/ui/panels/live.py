"""Train, *Live*: a timer looks at the read model and sends each browser only what is new to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from zeroboard.contract.state import LIVE
from zeroboard.errors import NotFound
from zeroboard.runs.snapshot import Snapshot
from zeroboard.services import logs, runs
from zeroboard.ui.controls import Choice
from zeroboard.ui.desk import Desk
from zeroboard.ui.views import live as view
from zeroboard.ui.views import logs as log_view
from zeroboard.ui.views import machine, proof
from zeroboard.ui.wiring import Changes, html

TICK = 1.0
"""Seconds between two looks."""
LOG_LINES = 200

Seen = Mapping[str, Any]
"""Slot → what this browser was sent last (a hash)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePanel:
    """The face's components."""

    progress: gr.HTML
    outcome: gr.HTML
    machine: gr.HTML
    charts: gr.HTML
    proof: gr.HTML
    stop: gr.Button
    """There while there is something to stop."""
    ask: gr.Row
    """Save or discard?"""
    again: gr.Button
    """Uses the settings of a run that has ended."""
    detail: gr.Column
    """Everything about a run; there while one is open."""
    log_names: gr.Radio
    log: gr.HTML
    timer: gr.Timer
    keep: gr.Button
    discard: gr.Button
    back: gr.Button
    to_export: gr.Button

    @property
    def shown(self) -> list[Any]:
        """What a look may change."""
        return [
            self.progress, self.outcome, self.machine, self.charts, self.proof, self.stop, self.again, self.to_export,
            self.log_names, self.log, self.detail,
        ]  # fmt: skip


def build(desk: Desk) -> LivePanel:
    """The components, in the order of the page."""
    progress = gr.HTML(html(view.nothing(desk.lang)), elem_id="zb-progress", elem_classes=["zb-panel"], min_height=176)
    with gr.Column(elem_classes=["zb-action-bar"]):
        # each button by itself: Gradio loses what is sent to one while the row around it is hidden
        with gr.Row(elem_classes=["zb-actions"]):
            stop = gr.Button(desk.say("ui.button.stop"), visible=False, elem_id="zb-stop", scale=0, min_width=140)
            to_export = gr.Button(
                desk.say("ui.button.to-export"),
                visible=False,
                elem_id="zb-to-export",
                variant="primary",
                scale=0,
                min_width=180,
            )
            again = gr.Button(
                desk.say("ui.button.use-settings"), visible=False, elem_id="zb-use-settings", scale=0, min_width=180
            )
        with gr.Row(visible=False, elem_classes=["zb-actions", "zb-ask"]) as ask:
            gr.HTML(f"<p>{desk.say('ui.stop.question')}</p>")
            keep = gr.Button(desk.say("ui.button.stop-save"), elem_id="zb-stop-save", variant="primary", size="md")
            discard = gr.Button(
                desk.say("ui.button.stop-discard"), elem_id="zb-stop-discard", variant="stop", size="md"
            )
            back = gr.Button(desk.say("ui.button.stop-back"), elem_id="zb-stop-back", size="md")
    outcome = gr.HTML(elem_id="zb-outcome")
    machine_html = gr.HTML(elem_id="zb-machine", min_height=64)
    with gr.Column(visible=False, elem_classes=["zb-detail"]) as detail:
        charts = gr.HTML(elem_id="zb-charts", min_height=288)
        with gr.Tabs(elem_classes=["zb-inner"]):
            with gr.Tab(desk.say("ui.tab.proof"), id="proof"):
                proof_html = gr.HTML(elem_id="zb-proof", elem_classes=["zb-panel"], min_height=232)
            with gr.Tab(desk.say("ui.tab.logs"), id="logs"):
                log_names = Choice(
                    choices=[], label=desk.say("ui.logs.choose"), elem_id="zb-log-names", elem_classes=["zb-segment"]
                )
                log = gr.HTML(html(log_view.nothing(desk.lang)), elem_id="zb-log", min_height=400)
    return LivePanel(
        progress=progress, outcome=outcome, machine=machine_html, charts=charts, proof=proof_html, stop=stop, ask=ask,
        again=again, detail=detail, log_names=log_names, log=log, timer=gr.Timer(TICK), keep=keep, discard=discard,
        back=back, to_export=to_export,
    )  # fmt: skip


def look(desk: Desk, panel: LivePanel, run_id: str, seen: Seen, log_name: str | None) -> Changes:
    """What has changed for a browser that has seen `seen`; empty where nothing has."""
    now = dict(seen)
    changes: dict[Any, Any] = {}

    def known(slot: str, mark: object) -> bool:
        return bool(now.get(slot) == hash(mark))

    def put(component: Any, slot: str, value: Any, mark: object | None = None) -> None:
        sign = hash(str(value) if mark is None else mark)
        if now.get(slot) != sign:
            now[slot] = sign
            changes[component] = value

    put(desk.chips, "chips", desk.header(run_id))
    put(panel.machine, "machine", html(machine.cards(desk.shared.host.get(), desk.lang)))
    put(panel.detail, "detail", gr.update(visible=bool(run_id)), bool(run_id))
    if run_id:
        shown = desk.shared.snapshot(run_id)
        if now.get("version") != (run_id, id(shown)):
            now["version"] = (run_id, id(shown))
            now["kept"] = shown  # holds the object, so that its id stays its own
            for component, slot, value in _pictures(desk, panel, shown):
                put(component, slot, value)
            alive = shown.state.state in LIVE
            asked = shown.state.stop is not None or runs.stop_asked(desk.paths, run_id)
            put(panel.stop, "stop", gr.update(visible=alive and not asked), alive and not asked)
            ended = not alive
            put(panel.again, "again", gr.update(visible=ended), ended)
            came = ended and shown.report is not None
            put(panel.to_export, "to-export", gr.update(visible=came), came)
        _logs(desk, panel, run_id, log_name, put, known)
    if changes:
        changes[desk.seen] = now
    return changes


def _pictures(desk: Desk, panel: LivePanel, shown: Snapshot) -> list[tuple[gr.HTML, str, str]]:
    lang = desk.lang
    return [
        (panel.progress, "progress", html(view.progress(shown, lang))),
        (panel.outcome, "outcome", html(view.outcome(shown, lang))),
        (panel.charts, "charts", html(view.charts(shown, lang))),
        (panel.proof, "proof", html(proof.proof(shown.proof, shown.ranks, lang))),
    ]


def _logs(desk: Desk, panel: LivePanel, run_id: str, chosen: str | None, put: Any, known: Any) -> None:
    names = logs.names(desk.paths, run_id)
    if not names:
        put(panel.log_names, "log-names", gr.update(choices=[], value=None), names)
        put(panel.log, "log", html(log_view.nothing(desk.lang)))
        return
    name = chosen if chosen in names else names[0]
    labels = [(log_label(desk, n), n) for n in names]
    put(panel.log_names, "log-names", gr.update(choices=labels, value=name), (run_id, names))
    mark = (run_id, name, logs.stamp(desk.paths, run_id, name))
    if known("log", mark):
        return  # it has not grown
    end = logs.tail(desk.paths, run_id, name, lines=LOG_LINES)
    shown = log_view.tail(end.text, end.size, run_id=run_id, name=name, base=desk.base, lang=desk.lang)
    put(panel.log, "log", html(shown), mark)


def log_label(desk: Desk, name: str) -> str:
    """A log's name in words: rank 0, launcher."""
    if name.startswith("rank "):
        return desk.say("ui.logs.rank", rank=name.removeprefix("rank "))
    return desk.say(f"ui.logs.{name}")


def wire(desk: Desk, panel: LivePanel) -> None:
    """Handlers and wiring."""

    def tick(run_id: str, seen: Seen, log_name: str | None) -> Changes:
        try:
            return look(desk, panel, run_id, seen, log_name)
        except NotFound:  # the folder was deleted while it was open here
            return {desk.run: "", desk.seen: {}, panel.progress: html(view.nothing(desk.lang))}

    def choose_log(run_id: str, seen: Seen, log_name: str | None) -> Changes:
        return look(desk, panel, run_id, seen, log_name)

    def ask_stop() -> Changes:
        return {panel.ask: gr.update(visible=True), panel.stop: gr.update(visible=False)}

    def stop_back() -> Changes:
        return {panel.ask: gr.update(visible=False), panel.stop: gr.update(visible=True)}

    def _stop(run_id: str, discard: bool) -> Changes:
        runs.stop(desk.paths, run_id, discard=discard)
        desk.shared.runs.forget()
        return {panel.ask: gr.update(visible=False)}

    def stop_save(run_id: str) -> Changes:
        return _stop(run_id, False)

    def stop_discard(run_id: str) -> Changes:
        return _stop(run_id, True)

    looked = [desk.run, desk.seen, panel.log_names]
    shown = [*panel.shown, desk.chips, desk.seen, desk.run]
    desk.wire.on(panel.timer.tick, tick, inputs=looked, outputs=shown, quiet=True)
    desk.wire.on(panel.log_names.input, choose_log, inputs=looked, outputs=shown)
    desk.wire.on(panel.stop.click, ask_stop, outputs=[panel.ask, panel.stop])
    desk.wire.on(panel.back.click, stop_back, outputs=[panel.ask, panel.stop])
    desk.wire.on(panel.keep.click, stop_save, inputs=[desk.run], outputs=[panel.ask])
    desk.wire.on(panel.discard.click, stop_discard, inputs=[desk.run], outputs=[panel.ask])
