"""In the data card: bringing files, how they are judged, what their columns mean, and what a person accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from zeroboard.contract.reports import DataReport
from zeroboard.contract.spec import DataSpec, RunSpec
from zeroboard.errors import UsageError
from zeroboard.messages import Language, say
from zeroboard.paths import Paths
from zeroboard.services import uploads
from zeroboard.services.judging import Judgement, Judging
from zeroboard.ui.desk import Desk
from zeroboard.ui.form import COLUMNS
from zeroboard.ui.views import data as view
from zeroboard.ui.views import numbers
from zeroboard.ui.views.markup import tag
from zeroboard.ui.wiring import Changes, html, notice

TICK = 1.0
"""Seconds between two looks at a file that is being judged."""
PATH = "data.path"
ACCEPT = "data.accept_refused"
USUAL: float = DataSpec.model_fields["accept_refused"].get_default()


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """The components that bring, list and delete files."""

    upload: gr.UploadButton
    box: gr.Accordion
    files: gr.CheckboxGroup
    delete: gr.Button


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPanel:
    """The components that follow from the chosen file."""

    facts: gr.HTML
    stop: gr.Button
    again: gr.Button
    timer: gr.Timer
    accept: gr.Checkbox
    """More rows are refused than usual: train on the rest?"""
    columns: gr.Accordion
    """Holds the fields that say what columns mean."""

    @property
    def shown(self) -> list[Any]:
        """What `show` changes, but for the fields of the columns."""
        return [self.facts, self.stop, self.again, self.timer, self.accept, self.columns]


def build_brought(paths: Paths, lang: Language) -> Brought:
    """The button that brings a file, and the list of those that came."""
    upload = gr.UploadButton(say("ui.button.upload", lang), size="sm", elem_id="zb-upload")
    hint = say("ui.upload.hint", lang, most=numbers.size(uploads.LARGEST, lang))
    gr.HTML(html(tag("p", hint, class_="zb-hint")))
    there = listed(paths, lang)
    with gr.Accordion(
        say("ui.uploads.title", lang, n=len(there)), open=False, visible=bool(there), elem_id="zb-uploads"
    ) as box:
        files = gr.CheckboxGroup(
            choices=there, value=[], label=say("ui.uploads.label", lang), info=say("ui.uploads.hint", lang),
            elem_classes=["zb-field"],
        )  # fmt: skip
        delete = gr.Button(say("ui.uploads.delete", lang), size="sm", elem_id="zb-uploads-delete")
    return Brought(upload=upload, box=box, files=files, delete=delete)


def listed(paths: Paths, lang: Language) -> list[tuple[str, str]]:
    """The files that came: a line for people, and the name."""
    return [(view.upload_line(upload, lang), upload.name) for upload in uploads.uploads(paths)]


def build(lang: Language, columns: Callable[[], None]) -> DataPanel:
    """What follows from the file; `columns` makes the fields that say what columns mean, where they belong."""
    facts = gr.HTML(elem_id="facts-data")
    stop = gr.Button(say("ui.data.stop", lang), size="sm", visible=False, elem_id="zb-judge-stop")
    again = gr.Button(say("ui.data.again", lang), size="sm", visible=False, elem_id="zb-judge-again")
    accept = gr.Checkbox(
        False, label=say("ui.data.accept", lang, share="", refused="", total=""), visible=False, elem_id="zb-accept",
        elem_classes=["zb-field"],
    )  # fmt: skip
    with gr.Accordion(say("ui.columns.title", lang), open=False, visible=False, elem_id="f-data-columns") as box:
        gr.HTML(html(tag("p", say("ui.columns.hint", lang), class_="zb-hint")))
        columns()
    timer = gr.Timer(TICK, active=False)
    return DataPanel(facts=facts, stop=stop, again=again, timer=timer, accept=accept, columns=box)


def look(judging: Judging, spec: RunSpec) -> Judgement:
    """How far the spec's file is; begins to judge it."""
    return judging.look(spec.data.path, columns=spec.data.chosen, mix=spec.data.mix)


def show(panel: DataPanel, controls: Mapping[str, Any], judged: Judgement, spec: RunSpec, lang: Language) -> Changes:
    """What the panel shows of a judgement."""
    going = judged.done is not None
    changes: dict[Any, Any] = {
        panel.facts: html(view.card(judged, lang)),
        panel.stop: gr.update(visible=going),
        panel.again: gr.update(visible=judged.stopped),
        panel.timer: gr.Timer(TICK, active=going),
        panel.accept: gr.update(visible=False),
    }
    found = judged.report
    if found is None:
        return changes
    if found.trainable and found.share_refused > USUAL:
        share = numbers.percent(found.share_refused, lang) if found.share_refused >= 0.1 else _tenths(found)
        label = say("ui.data.accept", lang, share=share, refused=f"{found.refused:,}", total=f"{found.total:,}")
        accepted = spec.data.accept_refused >= found.share_refused
        changes[panel.accept] = gr.update(visible=True, label=label, value=accepted)
    named = bool(found.columns or spec.data.columns)
    changes[panel.columns] = gr.update(visible=named, open=True) if _unclear(found) else gr.update(visible=named)
    if named:
        open_words = say("ui.columns.as-named", lang)
        for key, control in controls.items():
            if key.startswith(COLUMNS):
                picked = spec.data.chosen.get(key.removeprefix(COLUMNS), "")
                names = dict.fromkeys((*found.columns, *([picked] if picked else [])))
                changes[control] = gr.update(choices=[(open_words, ""), *((name, name) for name in names)])
    return changes


def _tenths(report: DataReport) -> str:
    return f"{100 * report.share_refused:.1f} %"


def _unclear(report: DataReport) -> bool:
    """Its columns have names, and nobody knows what they mean."""
    return report.format == "unknown" and bool(report.columns)


def wire(
    desk: Desk,
    panel: DataPanel,
    controls: Mapping[str, Any],
    *,
    follow: Callable[..., Changes],
    asked: Callable[[tuple[Any, ...]], RunSpec | None],
    values: Callable[[tuple[Any, ...]], dict[str, Any]],
    inputs: list[Any],
    follows: list[Any],
    memory: list[Any],
) -> None:
    """`follow` shows all that hangs on the form (`inputs` → `follows`); `asked` makes the spec of the form's values.

    `memory` is what the browser keeps.
    """
    judging = desk.shared.judging

    def watch_data(written: Any, *given: Any) -> Changes:
        spec = asked(given)
        if spec is None:
            return {panel.timer: gr.Timer(TICK, active=False)}
        judged = judging.look(spec.data.path, columns=spec.data.chosen, mix=spec.data.mix, wait=0.0)
        if judged.done is not None:
            return {panel.facts: html(view.card(judged, desk.lang))}
        return follow(written, *given)

    def stop_judging(written: Any, *given: Any) -> Changes:
        spec = asked(given)
        if spec is not None:
            judging.stop(spec.data.path, columns=spec.data.chosen, mix=spec.data.mix)
        return follow(written, *given)

    def judge_again(written: Any, *given: Any) -> Changes:
        spec = asked(given)
        if spec is not None:
            judging.again(spec.data.path, columns=spec.data.chosen, mix=spec.data.mix)
        return follow(written, *given)

    def accept_refused(accepted: bool, written: Any, *given: Any) -> Changes:
        """The tick is a value of the spec: as much as this file needs, or what is usual."""
        spec = asked(given)
        judged = look(judging, spec) if spec is not None else Judgement()
        if judged.report is None:
            return {}
        share = judged.report.share_refused if accepted else USUAL
        now = list(given)
        now[inputs.index(controls[ACCEPT]) - 1] = share  # `written` stands in front of the values
        kept = {desk.kept: {"values": values(tuple(now))}, desk.reopened: True}
        # the field may lie in a card that is closed, where nothing tells that it has changed
        return {**follow(written, *now), **kept, controls[ACCEPT]: share}

    columns = [control for key, control in controls.items() if key.startswith(COLUMNS)]

    def forget_columns(written: Any, *given: Any) -> Changes:
        """Another file has other columns."""
        at = {inputs.index(control) - 1 for control in columns}  # `written` stands in front of the values
        if not any(given[n] for n in at):
            return {}
        now = tuple("" if n in at else value for n, value in enumerate(given))
        kept = {desk.kept: {"values": values(now)}, desk.reopened: True}
        open_words = desk.say("ui.columns.as-named")
        emptied = {control: gr.update(choices=[(open_words, "")], value="") for control in columns}
        shown = follow(written, *now)
        offered = {c: {**shown[c], "value": ""} if c in shown else emptied[c] for c in columns}
        return {**shown, **kept, **offered}

    wire_on = desk.wire.on
    wire_on(controls[PATH].input, forget_columns, inputs=inputs, outputs=[*follows, *memory])
    wire_on(panel.timer.tick, watch_data, inputs=inputs, outputs=follows, quiet=True)
    wire_on(panel.stop.click, stop_judging, inputs=inputs, outputs=follows)
    wire_on(panel.again.click, judge_again, inputs=inputs, outputs=follows)
    wire_on(
        panel.accept.input,
        accept_refused,
        inputs=[panel.accept, *inputs],
        outputs=[*follows, controls[ACCEPT], *memory],
    )


def wire_brought(
    desk: Desk,
    panel: Brought,
    *,
    offer: Callable[[Mapping[str, Any]], Changes],
    values: Callable[[tuple[Any, ...]], dict[str, Any]],
    columns: list[Any],
    inputs: list[Any],
    offered: list[Any],
    memory: list[Any],
) -> None:
    """`offer` changes the choices (`offered`) to what there is now; `memory` is what the browser keeps.

    `columns` are the fields that say what columns mean: another file has others.
    """

    def refreshed() -> Changes:
        there = listed(desk.paths, desk.lang)
        return {
            panel.files: gr.update(choices=there, value=[]),
            panel.box: gr.update(label=desk.say("ui.uploads.title", n=len(there)), visible=bool(there)),
        }

    def upload_data(file: str | None, *given: Any) -> Changes:
        if not file:
            raise UsageError("ui.upload.nothing")
        try:
            place = uploads.keep_data(desk.paths, Path(file), Path(file).name)
        finally:
            Path(file).unlink(missing_ok=True)  # what the browser sent lies in a temporary folder of the server
        now = {key: "" if key.startswith(COLUMNS) else value for key, value in values(given).items()}
        return {**_kept({**now, PATH: str(place)}), **refreshed(), **dict.fromkeys(columns, "")}

    def delete_data(ticked: Any, *given: Any) -> Changes:
        names = [name for name in ticked if isinstance(name, str)] if isinstance(ticked, list) else []
        if not names:
            raise UsageError("ui.uploads.nothing")
        for name in names:
            uploads.delete(desk.paths, name)
        said = notice(desk.say("ui.uploads.deleted", n=len(names)), "info", desk.lang)
        return {**offer(values(given)), **refreshed(), desk.wire.notice: said}

    def _kept(now: Mapping[str, Any]) -> Changes:
        return {**offer(now), desk.kept: {"values": dict(now)}, desk.reopened: True}

    listing = [panel.files, panel.box]
    desk.wire.on(
        panel.upload.upload,
        upload_data,
        inputs=[panel.upload, *inputs],
        outputs=[*offered, *listing, *columns, *memory],
    )
    desk.wire.on(panel.delete.click, delete_data, inputs=[panel.files, *inputs], outputs=[*offered, *listing])
