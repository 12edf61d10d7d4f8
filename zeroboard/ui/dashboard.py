"""The page: one builder, called once a language."""

from __future__ import annotations

from typing import Any

import gradio as gr

from zeroboard.errors import Refused, ZeroBoardError
from zeroboard.messages import Language, say
from zeroboard.services import prepare
from zeroboard.ui import form
from zeroboard.ui.desk import Desk
from zeroboard.ui.panels import live as live_panel
from zeroboard.ui.panels import runs as runs_panel
from zeroboard.ui.panels.logs import Asked
from zeroboard.ui.shared import Shared
from zeroboard.ui.tabs import export, preview, train
from zeroboard.ui.theme import logo
from zeroboard.ui.views import header
from zeroboard.ui.views.difference import change_words
from zeroboard.ui.views.findings import remedy_of
from zeroboard.ui.wiring import Changes, Wire, html, notice


def build(shared: Shared, lang: Language, base: str = "") -> gr.Blocks:
    """The page in a language. `base` is the path before our routes (behind a proxy)."""

    def words(key: str) -> str:
        return say(key, lang)

    page: gr.Blocks
    with gr.Blocks(title="ZeroBoard", analytics_enabled=False, fill_width=True) as page:
        with gr.Row(elem_id="zb-header"):
            gr.HTML(html(header.brand(logo(), lang)), elem_id="zb-brand")
            chips = gr.HTML(elem_id="zb-chips", min_height=32)
        told = gr.HTML(elem_id="zb-notice")
        wire = Wire(lang=lang, notice=told, prefix=lang.replace("-", "_"))
        # outside of the tabs, which count their children
        run, written, seen, reopened = gr.State(""), gr.State(None), gr.State({}), gr.State(False)
        # the secret hides nothing: it only has to be the same after a restart, or what was kept could not be read
        kept = gr.BrowserState({}, storage_key="zeroboard-form", secret="zeroboard-form")
        with gr.Tabs(elem_id="zb-tabs", selected="train") as tabs:
            with gr.Tab(words("ui.tab.train"), id="train"), gr.Tabs(elem_id="zb-faces", selected="setup") as faces:
                desk = Desk(
                    shared=shared, lang=lang, base=base, wire=wire, chips=chips, tabs=tabs, faces=faces, run=run,
                    written=written, seen=seen, kept=kept, reopened=reopened,
                )  # fmt: skip
                with gr.Tab(words("ui.tab.setup"), id="setup") as setup_page:
                    parts = train.build(desk, prepare.default_spec())
                with gr.Tab(words("ui.tab.live"), id="live"):
                    live = live_panel.build(desk)
                with gr.Tab(words("ui.tab.runs"), id="runs") as runs_page:
                    runs = runs_panel.build(desk)
            with gr.Tab(words("ui.tab.preview"), id="preview"):
                preview_tab = preview.build(desk)
            with gr.Tab(words("ui.tab.export"), id="export") as export_page:
                export_tab = export.build(desk)
        setup = train.wire(desk, parts, preview_tab)
        live_panel.wire(desk, live)
        runs_panel.wire(desk, runs, runs_page.select)
        export.wire(desk, export_tab, [export_page.select, live.to_export.click])
        _wire_page(desk, page, setup, live)
        desk.wire.on(setup_page.select, setup.offer, inputs=setup.inputs, outputs=setup.offered, quiet=True)
    return page


def _wire_page(desk: Desk, page: gr.Blocks, setup: train.SetUp, live: live_panel.LivePanel) -> None:
    """What concerns the whole page: opening it, leaving it, going from one tab to another."""

    def open_page(request: gr.Request, kept: Any, *given: Any) -> Changes:
        """The form as this browser left it (else the settings of the run that the address names), and the header."""
        run_id = request.query_params.get("run") or ""
        plan = desk.plan_of(run_id) if run_id else None
        return {
            **setup.reopen(kept, preview.spec_of(plan), *given),
            desk.chips: desk.header(run_id if plan is not None else ""),
        }

    def open_run(request: gr.Request) -> Changes:
        """The run that the address names; raises `NotFound` where there is none of that name."""
        run_id = request.query_params.get("run") or ""
        if not run_id:
            return {}
        shown = live_panel.look(desk, live, run_id, {}, Asked())
        return {**shown, desk.run: run_id, desk.faces: gr.update(selected="live")}

    def use_settings(run_id: str) -> Changes:
        """The open run's spec in the form."""
        spec = preview.spec_of(desk.plan_of(run_id))
        if spec is None:
            raise ZeroBoardError("error.run-unreadable", run=run_id)
        return {**setup.fill(spec), desk.faces: gr.update(selected="setup")}

    def use_remedy(run_id: str, pressed: gr.EventData) -> Changes:
        """The open run's spec with a remedy's fields set, in the form, and what that changed; nothing is started."""
        before = preview.spec_of(desk.plan_of(run_id))
        named = [getattr(pressed, name, None) for name in ("code", "rank", "remedy")]
        found = desk.shared.findings(desk.shared.snapshot(run_id)).findings
        remedy = remedy_of(found, *named)
        if before is None or remedy is None or not remedy.set:
            raise ZeroBoardError("error.remedy-gone")
        spec, problems = form.mended(before, remedy.set)
        if spec is None:
            raise Refused(problems)
        words = desk.say("ui.findings.applied", changes=change_words(before, spec, desk.lang))
        return {
            **setup.fill(spec),
            desk.faces: gr.update(selected="setup"),
            desk.wire.notice: notice(words, "info", desk.lang),
        }

    def go_export() -> Changes:
        return {desk.tabs: gr.update(selected="export")}

    def leave(request: gr.Request) -> None:
        desk.shared.chats.leave(request.session_hash or "")

    desk.wire.on(
        page.load, open_page, inputs=[desk.kept, *setup.inputs], outputs=[*setup.outputs, desk.chips], quiet=True
    )
    desk.wire.on(page.load, open_run, outputs=[*live.shown, desk.chips, desk.seen, desk.run, desk.faces])
    desk.wire.on(live.again.click, use_settings, inputs=[desk.run], outputs=[*setup.outputs, desk.kept, desk.faces])
    desk.wire.on(live.findings.submit, use_remedy, inputs=[desk.run], outputs=[*setup.outputs, desk.kept, desk.faces])
    desk.wire.on(live.to_export.click, go_export, outputs=[desk.tabs])
    page.unload(leave)
