"""Train, *Set up*: the form, the plan at its side, Preview and Start."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from zeroboard.contract.plan import Plan
from zeroboard.contract.requests import Progress
from zeroboard.contract.spec import RunSpec
from zeroboard.errors import Refused, UsageError
from zeroboard.planning.steps import uncounted
from zeroboard.services import configs, prepare, runs
from zeroboard.services.judging import Judgement
from zeroboard.ui import form
from zeroboard.ui.controls import STAGE, control
from zeroboard.ui.desk import Desk, Written
from zeroboard.ui.form import CARDS
from zeroboard.ui.panels import data as data_panel
from zeroboard.ui.panels import fetching as fetch_panel
from zeroboard.ui.panels import form as form_panel
from zeroboard.ui.panels import mixing
from zeroboard.ui.panels import tokens as tokens_panel
from zeroboard.ui.stream import Came, stream
from zeroboard.ui.tabs.preview import PreviewTab
from zeroboard.ui.views import numbers
from zeroboard.ui.views import plan as plan_view
from zeroboard.ui.views.markup import tag
from zeroboard.ui.views.stages import stages as stages_view
from zeroboard.ui.wiring import Changes, html

SETTINGS_LARGEST = 1 << 20
"""Bytes of a file of settings."""
KEEP = "(...given) => (window.zbTyped = true, { values: Object.fromEntries(KEYS.map((key, i) => [key, given[i]])) })"
"""What the user typed, into the browser's own storage: without the server, as the page may be left at once."""
UNLESS_TYPED = "(reopened, kept, ...rest) => [reopened, window.zbTyped ? {} : kept, ...rest]"
"""What was kept is put back only until the user types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The components of the face."""

    form: form_panel.FormPanel
    name: Any
    side: gr.HTML
    why: gr.HTML
    """Why Preview and Start are disabled."""
    preview: gr.Button
    start: gr.Button
    save: gr.HTML
    load: gr.UploadButton


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """The face, for those who fill it from elsewhere."""

    fill: Callable[[RunSpec], Changes]
    """Changes that show a spec in the form."""
    inputs: list[Any]
    """Components whose values `look` takes."""
    outputs: list[Any]
    """Components that `fill`, `look` and `reopen` change."""
    reopen: Callable[..., Changes]
    """(what the browser kept, the open run's spec or None, *values) → the form as it was left."""
    offer: Callable[..., Changes]
    """(*values) → the choices as they are now: models, data sets, GPUs."""
    offered: list[Any]
    """Components that `offer` changes."""


def build(desk: Desk, spec: RunSpec) -> Parts:
    """The components. Wired by `wire`, when the other tabs stand."""
    with gr.Row(elem_classes=["zb-setup"], equal_height=False):
        with gr.Column(elem_classes=["zb-cards"], scale=7, min_width=320):
            panel = form_panel.build(spec, prepare.choices(desk.paths), desk.shared.host.get(), desk.lang, desk.paths)
        with gr.Column(elem_classes=["zb-side"], scale=4, min_width=320):
            side = gr.HTML(elem_id="zb-plan", min_height=240)
            named = next(w for w in form.widgets() if w.card is None)
            name = control(named, spec.name, desk.lang)
            with gr.Row(elem_classes=["zb-go"]):
                why = gr.HTML(elem_id="zb-why")
                preview = gr.Button(desk.say("ui.button.preview"), elem_id="zb-preview", size="lg")
                start = gr.Button(desk.say("ui.button.start"), elem_id="zb-start", variant="primary", size="lg")
            with gr.Row(elem_classes=["zb-files"]):
                save = gr.HTML(elem_id="zb-save-settings")
                load = gr.UploadButton(desk.say("ui.button.load"), size="sm", elem_id="zb-load-settings")
    return Parts(form=panel, name=name, side=side, why=why, preview=preview, start=start, save=save, load=load)


def wire(desk: Desk, parts: Parts, preview_tab: PreviewTab) -> SetUp:
    """Handlers and wiring of the face."""
    panel = parts.form
    keys = ["name", *panel.controls]
    widgets = [parts.name, *panel.controls.values()]
    inputs = [desk.written, *widgets]
    columns = [control for key, control in panel.controls.items() if key.startswith(form.COLUMNS)]
    follows = [
        parts.side, parts.why, parts.preview, parts.start, parts.save, panel.model_facts, panel.lora, *panel.data.shown,
        *panel.fetch["model"].shown, *panel.fetch["dataset"].shown,
        *panel.mix.shown, panel.stages, panel.tokens.facts, *panel.cards.values(), preview_tab.stale, preview_tab.start,
        *columns,
    ]  # fmt: skip
    chosen = [key for key in panel.controls if key == "model.path" or form_panel.names_data(key)]
    offered = [*(panel.controls[key] for key in (*chosen, "devices.gpus")), panel.devices]

    memory = [desk.kept, desk.reopened]

    def values(given: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(keys, given, strict=True))

    def look(written: Written | None, *given: Any) -> Changes:
        """Everything that follows from the form, nothing of it written to disk."""
        checked = form.check(values(given))
        spec, host = checked.spec, desk.shared.host.get()
        judged, found = Judgement(), None
        if checked.rest is not None:
            judged = data_panel.look(desk.shared.judging, checked.rest)
            found = prepare.plan(desk.paths, checked.rest, host=host, judged=judged)
        refused = {problem.field for problem in checked.problems}
        others = found.problems if found is not None else ()
        problems = (*checked.problems, *(problem for problem in others if problem.field not in refused))
        plan = found if spec is not None else None
        why = plan_view.why_not(problems, desk.lang)
        changes: dict[Any, Any] = {
            parts.side: html(plan_view.panel(plan, problems, desk.lang, host.disk_free)),
            parts.why: html(tag("p", why, role="status")) if why else "",
            parts.preview: gr.update(interactive=not why),
            parts.start: gr.update(interactive=not why),
            panel.lora: gr.update(visible=values(given)["method.kind"] == "lora"),
            **mixing.show(panel.mix, values(given), desk.lang),
            **fetch_panel.show(desk, panel.fetch["model"], fetch_panel.named(desk, "model", values(given))),
            **fetch_panel.show(desk, panel.fetch["dataset"], fetch_panel.named(desk, "dataset", values(given))),
        }
        if checked.rest is not None:
            changes[panel.model_facts] = html(plan_view.model_card(found, desk.lang))
            changes |= data_panel.show(panel.data, panel.controls, judged, checked.rest, desk.lang)
            known = tokens_panel.known(desk, checked.rest) if judged.report is not None else ""
            changes[panel.tokens.facts] = known
        if spec is not None:
            changes[parts.save] = preview_tab.save_link(spec)
            changes[panel.stages] = _stages(spec, plan)
            stale = preview_tab.stale_notice(written, spec)
            changes[preview_tab.stale] = stale
            changes[preview_tab.start] = gr.update(
                interactive=not why and not stale and not (written and written.failed)
            )
            for card in CARDS:
                changes[panel.cards[card]] = gr.update(label=plan_view.summary(card, spec, plan, desk.lang))
        return changes

    def _stages(spec: RunSpec, plan: Plan | None) -> str:
        if plan is None or plan.model is None:
            return ""
        held = prepare.stages(spec, plan.model, desk.shared.host.get())
        trained = held["none"].gradient_bytes // 4 if held else 0  # fp32 gradients, whole on each rank
        share = trained / ((plan.model.parameters or 0) + trained) if spec.method.kind == "lora" and trained else None
        picture = stages_view(held, spec.zero.stage, ranks=plan.batch.gpus, share=share, lang=desk.lang)
        return html(picture) if picture is not None else ""

    def _rest(given: tuple[Any, ...]) -> RunSpec | None:
        return form.check(values(given)).rest

    def _asked(given: tuple[Any, ...]) -> RunSpec:
        checked = form.check(values(given))
        if checked.spec is None:
            raise Refused(checked.problems)
        return checked.spec

    def _write(spec: RunSpec, written: Written | None, told: Callable[[Progress], None]) -> tuple[Written, Plan]:
        """The folder of this very form: the one that is there already, or a new one."""
        stamp = form.stamp(spec)
        if written is not None and written.stamp == stamp and not written.started:
            plan = desk.plan_of(written.run_id)
            if plan is not None:
                return written, plan
        plan = prepare.prepare(desk.paths, spec, on_progress=told)
        desk.shared.runs.forget()
        return Written(run_id=plan.run_id or "", stamp=stamp), plan

    def _written(spec: RunSpec, written: Written | None) -> Generator[Changes, None, tuple[Written, Plan]]:
        """As `_write`, telling how far it is where the data has to be tokenised for it."""

        def telling(share: float) -> Changes:
            words = desk.say("ui.plan.tokenising", done=numbers.percent(share, desk.lang))
            return {parts.why: html(tag("p", words, role="status"))}

        counts = uncounted(spec, spec.train.max_steps)
        if counts:
            yield telling(0.0)

        def write(told: Callable[[Progress], None]) -> tuple[Written, Plan]:
            return _write(spec, written, told)

        try:
            for said in stream(write):
                if isinstance(said, Came):
                    if counts:
                        yield {parts.why: ""}
                    return said.value
                if isinstance(said, Progress):
                    yield telling(said.done or 0.0)
        except Exception:
            yield {parts.why: ""}
            raise
        raise AssertionError("a stream ends with what came, or raises")

    def preview(written: Written | None, *given: Any) -> Iterator[Changes]:
        spec = _asked(given)
        now, plan = yield from _written(spec, written)
        yield {desk.tabs: gr.update(selected="preview"), **preview_tab.show(plan, spec, now)}

    def start(written: Written | None, *given: Any) -> Iterator[Changes]:
        spec = _asked(given)
        now, plan = yield from _written(spec, written)
        yield preview_tab.show(plan, spec, now)
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

    def show(filled: Mapping[str, Any]) -> Changes:
        """The widgets with these values; those that are not named stay as they are."""
        changes: dict[Any, Any] = {c: filled[key] for key, c in zip(keys, widgets, strict=True) if key in filled}
        if STAGE in filled:
            one = filled[STAGE] == "1"
            choices = form_panel.stages(form_panel.stage_widget(), one, desk.lang)
            changes[panel.stage_one] = one
            changes[panel.controls[STAGE]] = gr.update(choices=choices, value=filled[STAGE])
        return {**changes, **_offer(filled)}

    def fill(spec: RunSpec) -> Changes:
        filled = form.from_spec(spec)
        return {**show(filled), desk.kept: {"values": filled}, desk.reopened: True}

    def _offer(now: Mapping[str, Any]) -> Changes:
        there, host = prepare.choices(desk.paths), desk.shared.host.get()
        picked = now.get("devices.gpus") or []
        changes: dict[Any, Any] = {}
        for key in chosen:
            names = [(name, name) for name in there.models]
            if form_panel.names_data(key):
                names = form_panel.data_choices(key, there.datasets, desk.lang)
            changes[panel.controls[key]] = gr.update(choices=names, **({"value": now[key]} if key in now else {}))
        gpus = form_panel.gpu_choices(host, picked if isinstance(picked, list) else [], desk.lang)
        changes[panel.controls["devices.gpus"]] = gr.update(choices=gpus, value=picked)
        changes[panel.devices] = html(form_panel.devices(host, desk.lang))
        return changes

    def offer(written: Written | None, *given: Any) -> Changes:
        return _offer(values(given))

    def reopen(kept: Any, spec: RunSpec | None, written: Written | None, *given: Any) -> Changes:
        left = form.kept(kept)
        filled = left or (form.from_spec(spec) if spec is not None else {})
        now = {**values(given), **filled}
        return {**show(now), **look(written, *(now[key] for key in keys)), desk.reopened: bool(left)}

    def reopen_late(reopened: bool, kept: Any, written: Written | None, *given: Any) -> Changes:
        """The browser's storage may be read only after the page has asked for it."""
        return {} if reopened or not form.kept(kept) else reopen(kept, None, written, *given)

    def load_settings(file: str | None) -> Changes:
        if not file:
            raise UsageError("ui.load.nothing")
        if Path(file).stat().st_size > SETTINGS_LARGEST:
            raise UsageError("ui.load.too-large")
        return fill(prepare.load_spec(file, ()))

    def own_json(file: str | None, *given: Any) -> Changes:
        if not file:
            raise UsageError("ui.own-json.nothing")
        try:
            before = _asked(given)
            spec, told = configs.spec_with(desk.paths, before, file, host=desk.shared.host.get())
        finally:
            Path(file).unlink(missing_ok=True)  # what the browser sent lies in a temporary folder of the server
        filled, old = form.from_spec(spec), form.from_spec(before)
        count = sum(filled[key] != old[key] for key in filled)
        said = plan_view.taken_over(Path(file).name, count, told, desk.lang)
        return {**show(filled), panel.own_told: html(said), desk.kept: {"values": filled}, desk.reopened: True}

    def offer_stage_one(wanted: bool, stage: str) -> Changes:
        choices = form_panel.stages(form_panel.stage_widget(), wanted, desk.lang)
        value = "2" if stage == "1" and not wanted else stage
        return {panel.controls[STAGE]: gr.update(choices=choices, value=value)}

    desk.wire.on(
        [c.change for c in widgets], look, inputs=inputs, outputs=follows, quiet=True, trigger_mode="always_last"
    )
    desk.wire.in_browser(
        [c.input for c in widgets], KEEP.replace("KEYS", json.dumps(keys)), inputs=widgets, outputs=[desk.kept]
    )
    tokens_panel.wire(desk, panel.tokens, asked=_asked, follow=look, inputs=inputs, follows=follows)
    desk.wire.on(
        parts.preview.click,
        preview,
        inputs=inputs,
        outputs=[desk.tabs, parts.why, *preview_tab.outputs],
    )
    desk.wire.on(
        [parts.start.click, preview_tab.start.click],
        start,
        inputs=inputs,
        outputs=[desk.run, desk.seen, parts.why, desk.chips, desk.tabs, desk.faces, *preview_tab.outputs],
    )
    desk.wire.on(
        parts.load.upload,
        load_settings,
        inputs=[parts.load],
        outputs=[*widgets, panel.stage_one, panel.devices, desk.kept, desk.reopened],
    )
    data_panel.wire(
        desk, panel.data, panel.controls, follow=look, asked=_rest, values=values, inputs=inputs, follows=follows,
        memory=memory,
    )  # fmt: skip
    data_panel.wire_brought(
        desk, panel.brought, offer=_offer, values=values, columns=columns, inputs=widgets, offered=offered,
        memory=memory,
    )  # fmt: skip
    for fetch in panel.fetch.values():
        fetch_panel.wire(
            desk, fetch, follow=look, offer=_offer, values=values, inputs=inputs, follows=follows, offered=offered
        )
    desk.wire.on(
        panel.own_json.upload,
        own_json,
        inputs=[panel.own_json, *widgets],
        outputs=[*widgets, panel.stage_one, panel.devices, panel.own_told, *memory],
    )
    desk.wire.on(
        panel.stage_one.input,
        offer_stage_one,
        inputs=[panel.stage_one, panel.controls[STAGE]],
        outputs=[panel.controls[STAGE]],
    )
    outputs = [*widgets, panel.stage_one, panel.devices, *follows, desk.reopened]
    late = [desk.reopened, desk.kept, *inputs]
    desk.wire.on(desk.kept.change, reopen_late, inputs=late, outputs=outputs, quiet=True, js=UNLESS_TYPED)
    return SetUp(
        fill=fill,
        inputs=inputs,
        outputs=outputs,
        reopen=reopen,
        offer=offer,
        offered=offered,
    )
