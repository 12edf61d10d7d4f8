"""Train, *Set up*: the form, the plan at its side, Preview and Start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from zeroboard.contract.plan import Plan
from zeroboard.contract.reports import DataReport
from zeroboard.contract.spec import RunSpec
from zeroboard.errors import Refused, UsageError, ZeroBoardError
from zeroboard.services import prepare, runs
from zeroboard.ui import form
from zeroboard.ui.controls import STAGE, control
from zeroboard.ui.desk import Desk, Written
from zeroboard.ui.form import CARDS
from zeroboard.ui.panels import form as form_panel
from zeroboard.ui.tabs.preview import PreviewTab
from zeroboard.ui.views import plan as plan_view
from zeroboard.ui.wiring import Changes, html


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """The face, for those who fill it from elsewhere."""

    fill: Any
    """(spec) → changes that show it in the form."""
    inputs: list[Any]
    """Components whose values `look` takes."""
    outputs: list[Any]
    """Components that `fill` and `look` change."""
    look: Any
    """(*values) → changes of everything that follows from the form."""


def build(desk: Desk, spec: RunSpec) -> tuple[Any, ...]:
    """The components: (form, name, plan panel, buttons). Wired by `wire`, when the other tabs stand."""
    with gr.Row(elem_classes=["zb-setup"], equal_height=False):
        with gr.Column(elem_classes=["zb-cards"], scale=7, min_width=320):
            panel = form_panel.build(spec, prepare.choices(desk.paths), desk.shared.host.get(), desk.lang)
        with gr.Column(elem_classes=["zb-side"], scale=4, min_width=320):
            side = gr.HTML(elem_id="zb-plan", min_height=240)
            named = next(w for w in form.widgets() if w.card is None)
            name = control(named, spec.name, desk.lang)
            with gr.Row(elem_classes=["zb-go"]):
                preview = gr.Button(desk.say("ui.button.preview"), elem_id="zb-preview", size="lg")
                start = gr.Button(desk.say("ui.button.start"), elem_id="zb-start", variant="primary", size="lg")
            with gr.Row(elem_classes=["zb-files"]):
                save = gr.HTML(elem_id="zb-save-settings")
                load = gr.UploadButton(
                    desk.say("ui.button.load"),
                    file_types=[".yaml", ".yml", ".json"],
                    size="sm",
                    elem_id="zb-load-settings",
                )
    return panel, name, side, preview, start, save, load


def wire(desk: Desk, parts: tuple[Any, ...], preview_tab: PreviewTab) -> SetUp:
    """Handlers and wiring of the face."""
    panel, name, side, preview_button, start_button, save, load = parts
    keys = ["name", *panel.controls]
    widgets = [name, *panel.controls.values()]
    inputs = [desk.written, *widgets]
    follows = [
        side, save, panel.model_facts, panel.data_facts, panel.lora, *panel.cards.values(), preview_tab.stale,
    ]  # fmt: skip

    def values(given: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(keys, given, strict=True))

    def look(written: Written | None, *given: Any) -> Changes:
        """Everything that follows from the form, nothing of it written to disk."""
        checked = form.check(values(given))
        spec = checked.spec
        plan = prepare.plan(desk.paths, spec, host=desk.shared.host.get()) if spec is not None else None
        problems = plan.problems if plan is not None else checked.problems
        changes: dict[Any, Any] = {
            side: html(plan_view.panel(plan, problems, desk.lang)),
            panel.lora: gr.update(visible=values(given)["method.kind"] == "lora"),
        }
        if spec is not None:
            changes[save] = preview_tab.save_link(spec)
            changes[panel.model_facts] = html(plan_view.model_card(plan, desk.lang))
            changes[panel.data_facts] = html(plan_view.data_card(_judged(spec), desk.lang))
            changes[preview_tab.stale] = preview_tab.stale_notice(written, spec)
            for card in CARDS:
                changes[panel.cards[card]] = gr.update(label=plan_view.summary(card, spec, plan, desk.lang))
        return changes

    def _judged(spec: RunSpec) -> DataReport | None:
        try:
            return prepare.judge_data(spec.data.path)
        except ZeroBoardError:
            return None  # the plan's problems say what is wrong with it

    def _asked(given: tuple[Any, ...]) -> RunSpec:
        checked = form.check(values(given))
        if checked.spec is None:
            raise Refused(checked.problems)
        return checked.spec

    def _write(spec: RunSpec, written: Written | None) -> tuple[Written, Plan]:
        """The folder of this very form: the one that is there already, or a new one."""
        stamp = form.stamp(spec)
        if written is not None and written.stamp == stamp and not written.started:
            plan = desk.plan_of(written.run_id)
            if plan is not None:
                return written, plan
        plan = prepare.prepare(desk.paths, spec)
        desk.shared.runs.forget()
        return Written(run_id=plan.run_id or "", stamp=stamp), plan

    def preview(written: Written | None, *given: Any) -> Changes:
        spec = _asked(given)
        now, plan = _write(spec, written)
        return {desk.written: now, desk.tabs: gr.update(selected="preview"), **preview_tab.show(plan, spec)}

    def start(written: Written | None, *given: Any) -> Iterator[Changes]:
        spec = _asked(given)
        now, plan = _write(spec, written)
        yield {desk.written: now, **preview_tab.show(plan, spec)}
        runs.start(desk.paths, now.run_id)
        desk.shared.runs.forget()
        yield {
            desk.written: Written(run_id=now.run_id, stamp=now.stamp, started=True),
            desk.run: now.run_id,
            desk.seen: {},
            desk.chips: desk.header(now.run_id),
            desk.tabs: gr.update(selected="train"),
            desk.faces: gr.update(selected="live"),
        }

    def fill(spec: RunSpec) -> Changes:
        filled = form.from_spec(spec)
        changes: dict[Any, Any] = {c: filled[key] for key, c in zip(keys, widgets, strict=True)}
        changes[panel.stage_one] = spec.zero.stage == "1"
        stage = panel.controls[STAGE]
        choices = form_panel.stages(form_panel.stage_widget(), spec.zero.stage == "1", desk.lang)
        changes[stage] = gr.update(choices=choices, value=spec.zero.stage)
        return changes

    def load_settings(file: str | None) -> Changes:
        if not file:
            raise UsageError("ui.load.nothing")
        return fill(prepare.load_spec(str(Path(file)), ()))

    def offer_stage_one(offered: bool, stage: str) -> Changes:
        choices = form_panel.stages(form_panel.stage_widget(), offered, desk.lang)
        value = "2" if stage == "1" and not offered else stage
        return {panel.controls[STAGE]: gr.update(choices=choices, value=value)}

    desk.wire.on(
        [c.change for c in widgets], look, inputs=inputs, outputs=follows, quiet=True, trigger_mode="always_last"
    )
    desk.wire.on(
        preview_button.click,
        preview,
        inputs=inputs,
        outputs=[desk.written, desk.tabs, *preview_tab.outputs],
    )
    desk.wire.on(
        start_button.click,
        start,
        inputs=inputs,
        outputs=[desk.written, desk.run, desk.seen, desk.chips, desk.tabs, desk.faces, *preview_tab.outputs],
    )
    desk.wire.on(load.upload, load_settings, inputs=[load], outputs=[*widgets, panel.stage_one])
    desk.wire.on(
        panel.stage_one.input,
        offer_stage_one,
        inputs=[panel.stage_one, panel.controls[STAGE]],
        outputs=[panel.controls[STAGE]],
    )
    return SetUp(fill=fill, inputs=inputs, outputs=[*widgets, panel.stage_one, *follows], look=look)
