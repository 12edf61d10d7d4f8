"""Deliver: the chosen output becomes a folder for others; the work goes on without the page, and can be ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from zeroboard.contract.exports import ExportState
from zeroboard.errors import BrokenFile, NotFound
from zeroboard.services import exporting, exports, gguf
from zeroboard.services.results import Output
from zeroboard.ui.controls import Choice
from zeroboard.ui.desk import Desk
from zeroboard.ui.views import deliver as view
from zeroboard.ui.views.markup import tag
from zeroboard.ui.wiring import Changes, html

TICK = 1.0
"""Seconds between two looks at an export that goes on."""

KEEP = "keep"
"""Leaves the type of the weights as it is."""
NONE = "none"

PAST = 10
"""Exports that are listed."""

DELIVERABLE = ("lora-adapter", "full-model", "zero-checkpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverPanel:
    """The components."""

    whole: gr.Column
    form: gr.Radio
    dtype: gr.Radio
    shard: gr.Dropdown
    gguf: gr.Dropdown
    name: gr.Textbox
    trust: gr.Checkbox
    repository: gr.Textbox
    token: gr.Textbox
    public: gr.Checkbox
    start: gr.Button
    cancel: gr.Button
    progress: gr.HTML
    past: gr.HTML
    job: gr.State
    """Id of the export that is shown."""
    timer: gr.Timer

    @property
    def chosen(self) -> list[Any]:
        """What another output changes."""
        return [self.whole, self.form, self.name, self.trust, *self.looked]

    @property
    def looked(self) -> list[Any]:
        """What a look changes."""
        return [self.progress, self.past, self.start, self.cancel, self.job, self.timer]


def build(desk: Desk) -> DeliverPanel:
    """The components."""
    say = desk.say
    with gr.Column(visible=False, elem_classes=["zb-card", "zb-deliver"], elem_id="zb-deliver") as whole:
        gr.HTML(html(tag("h3", say("ui.deliver.title")) + tag("p", say("ui.deliver.text"), class_="zb-note")))
        with gr.Row(elem_classes=["zb-pair"]):
            form = Choice(choices=[], label=say("ui.deliver.form.label"), info=say("ui.deliver.form.hint"),
                          elem_id="zb-deliver-form", elem_classes=["zb-field"])  # fmt: skip
            dtype = Choice(
                choices=[(say("ui.deliver.dtype.keep"), KEEP), "bf16", "fp16", "fp32"], value=KEEP,
                label=say("ui.deliver.dtype.label"), info=say("ui.deliver.dtype.hint"), elem_id="zb-deliver-dtype",
                elem_classes=["zb-field"],
            )  # fmt: skip
        with gr.Row(elem_classes=["zb-grid"]):
            name = gr.Textbox(label=say("ui.deliver.name.label"), max_lines=1, elem_id="zb-deliver-name",
                              info=say("ui.deliver.name.hint", folder=str(desk.paths.exports)),
                              elem_classes=["zb-field"])  # fmt: skip
            shard = gr.Dropdown(
                choices=list(exports.SHARD_CHOICES), value=exports.SHARD_CHOICES[2][1],
                label=say("ui.deliver.shard.label"), info=say("ui.deliver.shard.hint"), elem_id="zb-deliver-shard",
                elem_classes=["zb-field"],
            )  # fmt: skip
            types = gguf.types(gguf.find_converter(None))
            hint = "ui.deliver.gguf.hint" if types else "ui.deliver.gguf.missing"
            gguf_type = gr.Dropdown(
                choices=[(say("ui.deliver.gguf.none"), NONE), *types], value=NONE, interactive=bool(types),
                label=say("ui.deliver.gguf.label"), info=say(hint, package=gguf.PACKAGE, variable=gguf.VARIABLE),
                elem_id="zb-deliver-gguf", elem_classes=["zb-field"],
            )  # fmt: skip
        trust = gr.Checkbox(visible=False, label=say("ui.deliver.trust.label"), info=say("ui.deliver.trust.hint"),
                            elem_id="zb-deliver-trust", elem_classes=["zb-field"])  # fmt: skip
        with (
            gr.Accordion(say("ui.deliver.push"), open=False, elem_id="zb-deliver-push", elem_classes=["zb-advanced"]),
            gr.Row(elem_classes=["zb-grid"]),
        ):
            repository = gr.Textbox(
                label=say("ui.deliver.repository.label"), info=say("ui.deliver.repository.hint"),
                max_lines=1, elem_id="zb-deliver-repository", elem_classes=["zb-field"],
            )  # fmt: skip
            token = gr.Textbox(label=say("ui.deliver.token.label"), info=say("ui.deliver.token.hint"), type="password",
                               max_lines=1, elem_id="zb-deliver-token", elem_classes=["zb-field"])  # fmt: skip
            public = gr.Checkbox(label=say("ui.deliver.public.label"), info=say("ui.deliver.public.hint"),
                                 elem_id="zb-deliver-public", elem_classes=["zb-field"])  # fmt: skip
        with gr.Row(elem_classes=["zb-actions"]):
            start = gr.Button(say("ui.deliver.start"), variant="primary", size="md", scale=0, min_width=160,
                              elem_id="zb-deliver-start")  # fmt: skip
            cancel = gr.Button(say("ui.deliver.cancel"), visible=False, size="md", scale=0, min_width=140,
                               elem_id="zb-deliver-cancel")  # fmt: skip
        progress = gr.HTML(html(view.nothing(desk.lang)), elem_id="zb-deliver-progress", min_height=72)
        past = gr.HTML(elem_id="zb-deliver-past")
    return DeliverPanel(
        whole=whole, form=form, dtype=dtype, shard=shard, gguf=gguf_type, name=name, trust=trust,
        repository=repository, token=token, public=public, start=start, cancel=cancel, progress=progress, past=past,
        job=gr.State(""), timer=gr.Timer(TICK, active=False),
    )  # fmt: skip


def select(desk: Desk, panel: DeliverPanel, output: Output) -> Changes:
    """What follows from another output: its forms, a name, and its newest export."""
    kind = exporting.source(output.folder)
    if kind not in DELIVERABLE:
        return {panel.whole: gr.update(visible=False)}
    states = kind == "zero-checkpoint"
    plain = "consolidated" if states else "adapter" if kind == "lora-adapter" else "model"
    forms = [plain] if kind == "full-model" else [plain, "merged"]
    state = _newest(desk, output)
    return {
        panel.whole: gr.update(visible=True),
        panel.form: gr.update(choices=[(desk.say(f"ui.deliver.form.{f}"), f) for f in forms], value=plain),
        panel.name: _free_name(desk, output),
        panel.trust: gr.update(visible=states and output.run_id is None, value=False),
        **look(desk, panel, state.id if state is not None else ""),
    }


def look(desk: Desk, panel: DeliverPanel, job_id: str) -> Changes:
    """How far an export is."""
    past = html(view.past(_past(desk), desk.lang) or "")
    try:
        job = desk.paths.export(job_id)
        state = exports.read_state(job)
    except (NotFound, BrokenFile):
        shown, running, job_id = html(view.nothing(desk.lang)), False, ""
    else:
        running = state.state == "running"
        link = f"{desk.base}/files/exports/{state.id}/report"
        shown = html(view.export(state, exports.read_report(job), desk.lang, link))
    return {
        panel.progress: shown,
        panel.past: past,
        panel.start: gr.update(interactive=not running),
        panel.cancel: gr.update(visible=running),
        panel.job: job_id,
        panel.timer: gr.update(active=running),
    }


def wire(desk: Desk, panel: DeliverPanel, outputs: Any, find: Callable[[str | None, Any], Output], places: Any) -> None:
    """Handlers and wiring; `find` gives the output that is chosen, from the values of `outputs` and `places`."""

    def start_export(chosen: str | None, known: Any, *given: Any) -> Changes:
        """Judges the wish and starts it; the token goes no further than to the process that sends."""
        form, dtype, shard, kind, name, trust, repository, token, public = given
        output = find(chosen, known)
        wish = exporting.wish(
            desk.paths,
            str(output.folder),
            exports.page_target(desk.paths, str(name or "")),
            base=str(output.base) if output.base is not None else None,
            merge=form == "merged",
            dtype=dtype if dtype in ("bf16", "fp16", "fp32") else None,
            shard_bytes=int(shard) if shard in dict(exports.SHARD_CHOICES).values() else exports.SHARD_CHOICES[2][1],
            gguf=kind if kind in gguf.types(gguf.find_converter(None)) else None,
            push=str(repository).strip() or None if repository else None,
            public=bool(public),
            trust_pickles=bool(trust),
            language=desk.lang,
        )
        job_id = exports.start(desk.paths, wish, str(token).strip() if token else None)
        return {**look(desk, panel, job_id), panel.token: ""}

    def cancel_export(job_id: str) -> Changes:
        exports.cancel(desk.paths, job_id)
        return look(desk, panel, job_id)

    def look_at_export(job_id: str) -> Changes:
        return look(desk, panel, job_id)

    asked = [
        outputs, places, panel.form, panel.dtype, panel.shard, panel.gguf, panel.name, panel.trust, panel.repository,
        panel.token, panel.public,
    ]  # fmt: skip
    desk.wire.on(panel.start.click, start_export, inputs=asked, outputs=[*panel.looked, panel.token])
    desk.wire.on(panel.cancel.click, cancel_export, inputs=[panel.job], outputs=panel.looked)
    desk.wire.on(panel.timer.tick, look_at_export, inputs=[panel.job], outputs=panel.looked, quiet=True)


def _newest(desk: Desk, output: Output) -> ExportState | None:
    """The newest export of this very folder."""
    for state in exports.list_exports(desk.paths):
        wish = _wish_path(desk, state.id)
        if wish is not None and wish[0] == str(output.folder):
            return state
    return None


def _past(desk: Desk) -> list[tuple[ExportState, str]]:
    found = []
    for state in exports.list_exports(desk.paths)[:PAST]:
        wish = _wish_path(desk, state.id)
        if wish is not None:
            found.append((state, wish[1]))
    return found


def _wish_path(desk: Desk, job_id: str) -> tuple[str, str] | None:
    """From where and to where; None where that cannot be read."""
    try:
        wish = exports.read_wish(desk.paths.export(job_id))
    except (NotFound, BrokenFile):
        return None
    return wish.path, wish.target


def _free_name(desk: Desk, output: Output) -> str:
    """A name that nothing has yet in the folder of exports."""
    stem = (output.name or output.run_id or "model").replace("/", "-").strip(" .") or "model"
    stem = stem[:60] + (f"-{output.step}" if output.step is not None else "")
    names = [stem, *(f"{stem}-{number}" for number in range(2, 100))]
    return next((name for name in names if not Path(desk.paths.exports / name).exists()), "")
