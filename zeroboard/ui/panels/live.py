"""Train, *Live*: a timer looks at the read model and sends each browser only what is new to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr
from markupsafe import Markup

from zeroboard.contract.host import HostFacts
from zeroboard.contract.state import LIVE
from zeroboard.errors import NotFound
from zeroboard.runs.snapshot import Snapshot
from zeroboard.services import runs
from zeroboard.ui.desk import Desk
from zeroboard.ui.panels import logs
from zeroboard.ui.panels.logs import Asked, LogPanel
from zeroboard.ui.views import curves, findings, gpus, health, proof
from zeroboard.ui.views import live as view
from zeroboard.ui.views.machine import Beside
from zeroboard.ui.wiring import Changes, html

TICK = 1.0
"""Seconds between two looks."""

Seen = Mapping[str, Any]
"""Slot → what this browser was sent last (a hash)."""

REMEDY = """element.addEventListener("click", (event) => {
  const button = event.target.closest("[data-remedy]");
  if (!button) return;
  const of = button.closest("[data-code]").dataset;
  trigger("submit", { code: of.code, rank: of.rank ?? null, remedy: Number(button.dataset.remedy) });
});"""
"""Tells the server which remedy was pressed; what it sets is known there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePanel:
    """The face's components."""

    progress: gr.HTML
    health: gr.HTML
    outcome: gr.HTML
    machine: gr.HTML
    charts: gr.HTML
    proof: gr.HTML
    findings: gr.HTML
    inner: gr.Tabs
    findings_tab: gr.Tab
    """Its label says how many there are."""
    logs: LogPanel
    stop: gr.Button
    """There while there is something to stop."""
    ask: gr.Row
    """Save or discard?"""
    again: gr.Button
    """Uses the settings of a run that has ended."""
    detail: gr.Column
    """Everything about a run; there while one is open."""
    timer: gr.Timer
    keep: gr.Button
    discard: gr.Button
    back: gr.Button
    to_export: gr.Button

    @property
    def shown(self) -> list[Any]:
        """What a look may change."""
        return [
            self.progress, self.health, self.outcome, self.machine, self.charts, self.proof, self.findings, self.inner,
            self.findings_tab, self.stop, self.again, self.to_export, self.logs.names, self.logs.text, self.detail,
        ]  # fmt: skip


def build(desk: Desk) -> LivePanel:
    """The components, in the order of the page."""
    progress = gr.HTML(html(view.nothing(desk.lang)), elem_id="zb-progress", elem_classes=["zb-panel"], min_height=152)
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
            health_html = gr.HTML(elem_id="zb-health")
        with gr.Row(visible=False, elem_classes=["zb-actions", "zb-ask"]) as ask:
            gr.HTML(f"<p>{desk.say('ui.stop.question')}</p>")
            keep = gr.Button(desk.say("ui.button.stop-save"), elem_id="zb-stop-save", variant="primary", size="md")
            discard = gr.Button(
                desk.say("ui.button.stop-discard"), elem_id="zb-stop-discard", variant="stop", size="md"
            )
            back = gr.Button(desk.say("ui.button.stop-back"), elem_id="zb-stop-back", size="md")
    outcome = gr.HTML(elem_id="zb-outcome")
    with gr.Column(elem_classes=["zb-machines"]):
        machine = gr.HTML(elem_id="zb-machine", min_height=64)
        # the stylesheet alone looks at it
        gr.Checkbox(label=desk.say("ui.gpu.all-readings"), elem_id="zb-gpu-more", container=False)
    with gr.Column(visible=False, elem_classes=["zb-detail"]) as detail:
        charts = gr.HTML(elem_id="zb-charts", min_height=424)
        with gr.Tabs(elem_id="zb-inner", elem_classes=["zb-inner"]) as inner:
            with gr.Tab(desk.say("ui.tab.proof"), id="proof", elem_id="zb-proof-tab"):
                proof_html = gr.HTML(elem_id="zb-proof", elem_classes=["zb-panel"], min_height=168)
            with gr.Tab(desk.say("ui.tab.findings"), id="findings", elem_id="zb-findings-tab") as findings_tab:
                found = gr.HTML(elem_id="zb-findings", elem_classes=["zb-panel"], min_height=168, js_on_load=REMEDY)
            with gr.Tab(desk.say("ui.tab.logs"), id="logs"):
                log_panel = logs.build(desk)
    return LivePanel(
        progress=progress, health=health_html, inner=inner, outcome=outcome, machine=machine, charts=charts,
        proof=proof_html, findings=found, findings_tab=findings_tab, logs=log_panel, stop=stop, ask=ask, again=again,
        detail=detail, timer=gr.Timer(TICK), keep=keep, discard=discard, back=back, to_export=to_export,
    )  # fmt: skip


class Look:
    """One look for one browser: what it has seen, and what has changed for it."""

    def __init__(self, seen: Seen) -> None:
        self.now = dict(seen)
        self.changes: dict[Any, Any] = {}

    def known(self, slot: str, mark: object) -> bool:
        return bool(self.now.get(slot) == hash(mark))

    def put(self, component: Any, slot: str, value: Any, mark: object | None = None) -> None:
        """Sends the value unless it (or its mark) was sent last; without a component the mark is only kept."""
        sign = hash(str(value) if mark is None else mark)
        if self.now.get(slot) != sign:
            self.now[slot] = sign
            if component is not None:
                self.changes[component] = value

    def anew(self, slot: str, *parts: object) -> bool:
        """Whether any of these objects is another one than at the last look; they are held, so that no id is reused."""
        before = self.now.get(slot, ())
        if len(before) == len(parts) and all(a is b for a, b in zip(before, parts, strict=True)):
            return False
        self.now[slot] = parts
        return True


def look(desk: Desk, panel: LivePanel, run_id: str, seen: Seen, asked: Asked) -> Changes:
    """What has changed for a browser that has seen `seen`; empty where nothing has."""
    at = Look(seen)
    at.put(desk.chips, "chips", desk.header(run_id))
    at.put(panel.detail, "detail", gr.update(visible=bool(run_id)), bool(run_id))
    shown = desk.shared.snapshot(run_id) if run_id else None
    _machine(desk, panel, at, shown)
    if shown is not None:
        if at.anew("snapshot", shown):
            for component, slot, value in _pictures(desk, panel, shown):
                at.put(component, slot, value)
        _findings(desk, panel, at, shown)
        _health(desk, panel, at, shown)
        _buttons(desk, panel, at, shown)
        logs.show(desk, panel.logs, run_id, asked, at.put, at.known)
    if at.changes:
        at.changes[desk.seen] = at.now
    return at.changes


def _machine(desk: Desk, panel: LivePanel, at: Look, shown: Snapshot | None) -> None:
    """The cards, when there are new facts of the machine (or another run)."""
    host = desk.shared.host.get()
    run_id = shown.state.id if shown is not None else ""
    if not at.anew("host", host) and at.known("machine-of", run_id):
        return
    at.put(None, "machine-of", run_id, run_id)

    def draw() -> str:
        return html(gpus.cards(host, desk.lang, _beside(desk, host, shown)))

    at.put(panel.machine, "machine", desk.shared.drawn(f"machine {desk.lang} {run_id}", (host,), draw))


def _beside(desk: Desk, host: HostFacts, shown: Snapshot | None) -> Beside:
    ours = desk.shared.ours(host.hostname)
    if shown is None:
        return Beside(ours=ours)
    mine = _gpus(shown)
    return Beside(ours=ours, mine=mine, training=shown.state.state == "running", history=shown.history)


def _gpus(shown: Snapshot) -> frozenset[str]:
    """UUIDs of the run's GPUs; none of a run on the processor."""
    return frozenset(shown.state.devices) - {"cpu"}


def _health(desk: Desk, panel: LivePanel, at: Look, shown: Snapshot) -> None:
    """The proof, the findings and the GPUs of the run in a line."""
    host, found, alive = desk.shared.host.get(), desk.shared.findings(shown), shown.state.state in LIVE
    parts = (host, found, shown.proof, alive)

    def draw() -> str:
        asked = alive and host.gpus
        wrong = gpus.troubles(host, _beside(desk, host, shown), desk.lang) if asked else None
        many = len(_gpus(shown))
        return html(health.health(shown.proof, found, wrong, desk.lang, alive=alive, gpus=many))

    at.put(panel.health, "health", desk.shared.drawn(f"health {desk.lang} {shown.state.id}", parts, draw))


def _pictures(desk: Desk, panel: LivePanel, shown: Snapshot) -> Iterator[tuple[gr.HTML, str, str]]:
    lang, run_id = desk.lang, shown.state.id

    def drawn(slot: str, parts: tuple[object, ...], make: Callable[[], object]) -> str:
        return desk.shared.drawn(f"{slot} {lang} {run_id}", parts, lambda: html(make()))

    yield panel.progress, "progress", html(view.progress(shown, lang))
    yield panel.outcome, "outcome", html(view.outcome(shown, lang, desk.shared.findings(shown)))
    history = curves.settled(shown.history)
    machine = drawn("busy", (history[-1:],), lambda: curves.machine_card(history, lang, bool(_gpus(shown))))
    parts = (shown.series, tuple(shown.peaks.items()), machine, shown.state.steps)
    rate = desk.shared.rate(run_id)
    page = drawn("charts", parts, lambda: curves.charts(shown, history, lang, rate, Markup(machine)))
    yield panel.charts, "charts", page
    told = (shown.proof, shown.ranks)
    yield panel.proof, "proof", drawn("proof", told, lambda: proof.proof(shown.proof, shown.ranks, lang))


def _findings(desk: Desk, panel: LivePanel, at: Look, shown: Snapshot) -> None:
    found = desk.shared.findings(shown)
    alive = shown.state.state in LIVE
    if not at.anew("found", found) and at.known("found-alive", alive):
        return
    at.put(None, "found-alive", alive, alive)
    page = findings.findings(
        found.findings, found.root, desk.lang, alive=alive, run_id=shown.state.id, base=desk.base, errors=shown.errors
    )
    at.put(panel.findings, "findings", html(page))
    count = findings.count(found.findings)
    words = desk.say("ui.tab.findings.count", n=count) if count else desk.say("ui.tab.findings")
    at.put(panel.findings_tab, "findings-tab", gr.update(label=words), words)

    if not at.known("opened", shown.state.id):
        at.put(None, "opened", shown.state.id, shown.state.id)
        if found.root is not None:  # a run that failed is opened for its reason
            at.changes[panel.inner] = gr.update(selected="findings")


def _buttons(desk: Desk, panel: LivePanel, at: Look, shown: Snapshot) -> None:
    alive = shown.state.state in LIVE
    asked = shown.state.stop is not None or runs.stop_asked(desk.paths, shown.state.id)
    at.put(panel.stop, "stop", gr.update(visible=alive and not asked), alive and not asked)
    at.put(panel.again, "again", gr.update(visible=not alive), not alive)
    came = not alive and shown.report is not None
    at.put(panel.to_export, "to-export", gr.update(visible=came), came)


def wire(desk: Desk, panel: LivePanel) -> None:
    """Handlers and wiring."""

    def tick(run_id: str, seen: Seen, *asked: Any) -> Changes:
        try:
            return look(desk, panel, run_id, seen, Asked(*asked))
        except NotFound:  # the folder was deleted while it was open here
            return {desk.run: "", desk.seen: {}, panel.progress: html(view.nothing(desk.lang))}

    def choose_log(run_id: str, seen: Seen, *asked: Any) -> Changes:
        return look(desk, panel, run_id, seen, Asked(*asked))

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

    looked = [desk.run, desk.seen, *panel.logs.asked]
    shown = [*panel.shown, desk.chips, desk.seen, desk.run]
    chosen = [panel.logs.names.input, panel.logs.search.input, panel.logs.level.input, panel.logs.follow.input]
    desk.wire.on(panel.timer.tick, tick, inputs=looked, outputs=shown, quiet=True)
    desk.wire.on(chosen, choose_log, inputs=looked, outputs=shown, trigger_mode="always_last")
    desk.wire.on(panel.stop.click, ask_stop, outputs=[panel.ask, panel.stop])
    desk.wire.on(panel.back.click, stop_back, outputs=[panel.ask, panel.stop])
    desk.wire.on(panel.keep.click, stop_save, inputs=[desk.run], outputs=[panel.ask])
    desk.wire.on(panel.discard.click, stop_discard, inputs=[desk.run], outputs=[panel.ask])
