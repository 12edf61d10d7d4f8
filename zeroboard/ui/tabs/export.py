"""Export: what came out, whether it is sound, and a question to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
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
from zeroboard.ui.panels import deliver as deliver_panel
from zeroboard.ui.stream import Came, stream
from zeroboard.ui.views import export as view
from zeroboard.ui.wiring import Changes, html


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTab:
    """The tab's components."""

    outputs: gr.Radio
    """Id of what is chosen."""
    list_side: gr.Column
    path: gr.Textbox
    base: gr.Textbox
    look: gr.Button
    fold: gr.Accordion
    report: gr.HTML
    check: gr.Button
    chosen: gr.Column
    """What is there only when something is chosen."""
    talk: gr.Column
    """What is there only when it can be loaded."""
    chat: chat_panel.ChatPanel
    deliver: deliver_panel.DeliverPanel
    places: gr.State
    """Folders that a person named here: path → `Place`."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that a person named, with the base that was named for it and what a verification said."""

    base: str | None
    report: VerifyReport | None = None


Places = Mapping[str, Place]


def build(desk: Desk) -> ExportTab:
    """The components."""
    say = desk.say
    with gr.Row(elem_classes=["zb-export"], equal_height=False):
        with gr.Column(scale=3, min_width=280, elem_classes=["zb-list"]):
            with gr.Column(visible=False) as list_side:
                outputs = Choice(
                    choices=[], label=say("ui.export.outputs"), elem_id="zb-outputs", elem_classes=["zb-pick"]
                )
            with gr.Accordion(
                say("ui.export.foreign"), open=False, elem_id="zb-foreign", elem_classes=["zb-section"]
            ) as fold:
                path = gr.Textbox(
                    label=say("ui.export.foreign.path.label"), info=say("ui.export.foreign.path.hint"), max_lines=1,
                    elem_id="zb-foreign-path", elem_classes=["zb-field"],
                )  # fmt: skip
                base = gr.Textbox(
                    label=say("ui.export.foreign.base.label"), info=say("ui.export.foreign.base.hint"), max_lines=1,
                    elem_id="zb-foreign-base", elem_classes=["zb-field"],
                )  # fmt: skip
                look = gr.Button(say("ui.button.look"), elem_id="zb-foreign-look")
        with gr.Column(scale=8, min_width=320):
            report = gr.HTML(
                html(view.nothing(desk.lang)), elem_id="zb-report", elem_classes=["zb-panel"], min_height=160
            )
            with gr.Column(visible=False) as chosen:
                with gr.Row(elem_classes=["zb-actions"]):
                    check = gr.Button(say("ui.button.verify"), elem_id="zb-verify", size="md", scale=0, min_width=180)
                with gr.Column(visible=False) as talk:
                    chat = chat_panel.build(desk)
                deliver = deliver_panel.build(desk)
    return ExportTab(
        outputs=outputs, list_side=list_side, path=path, base=base, look=look, fold=fold, report=report, check=check,
        chosen=chosen, talk=talk, chat=chat, deliver=deliver, places=gr.State({}),
    )  # fmt: skip


def wire(desk: Desk, tab: ExportTab, opens: list[Any]) -> None:
    """Handlers and wiring; `opens` are the events upon which the list is read anew."""

    def find(chosen: str | None, places: Places) -> Output:
        """The output by the id that the browser sent; raises `NotFound` for one that was not offered."""
        if chosen and chosen in places:
            return results.foreign(chosen, places[chosen].base)
        if not chosen or chosen.startswith("/"):
            raise NotFound("error.no-result", run=chosen or "")
        return results.output(desk.paths, chosen)

    def show_outputs(run_id: str, chosen: str | None, places: Places) -> Changes:
        """The list; chosen is what was, else the result of the run that is open, else the newest."""
        return _list(desk, tab, find, (chosen, run_id), places)

    def choose_output(chosen: str | None, places: Places) -> Changes:
        return _show(desk, tab, find(chosen, places), places)

    def look_at_folder(path: str, base: str, run_id: str, places: Places) -> Changes:
        """A folder from elsewhere joins the list of this browser."""
        output = results.foreign(path or "", base.strip() if base else None)
        known = {**places, output.id: Place(base.strip() or None if base else None)}
        return {**_list(desk, tab, find, (output.id, run_id), known), tab.places: known, tab.path: "", tab.base: ""}

    def verify_output(chosen: str | None, run_id: str, places: Places) -> Iterator[Changes]:
        output = find(chosen, places)

        def work(tell: Callable[[Progress], None]) -> VerifyReport:
            return results.verify_output(desk.paths, output, on_progress=tell)

        yield {tab.report: html(view.checking(output, desk.lang, None)), tab.check: gr.update(interactive=False)}
        known = places
        try:
            for step in stream(work):
                if not isinstance(step, Came):
                    yield {tab.report: html(view.checking(output, desk.lang, step))}
                    continue
                desk.shared.forget_verdicts()
                if output.run_id is None:
                    known = {**places, output.id: replace(places[output.id], report=step.value)}
        except Exception:
            yield _show(desk, tab, output, places)
            raise
        yield {**_list(desk, tab, find, (output.id, run_id), known), tab.places: known}

    shown = [
        tab.report, tab.chosen, tab.talk, tab.check, tab.chat.compare, tab.chat.base_side, tab.chat.title,
        *tab.deliver.chosen,
    ]  # fmt: skip
    listed = [tab.outputs, tab.list_side, tab.fold, *shown]
    for number, event in enumerate(opens):
        handler = show_outputs if number == 0 else _again(show_outputs, number)
        desk.wire.on(event, handler, inputs=[desk.run, tab.outputs, tab.places], outputs=listed)
    desk.wire.on(tab.outputs.input, choose_output, inputs=[tab.outputs, tab.places], outputs=shown)
    desk.wire.on(
        [tab.look.click, tab.path.submit, tab.base.submit], look_at_folder,
        inputs=[tab.path, tab.base, desk.run, tab.places], outputs=[*listed, tab.places, tab.path, tab.base],
    )  # fmt: skip
    desk.wire.on(
        tab.check.click, verify_output, inputs=[tab.outputs, desk.run, tab.places], outputs=[*listed, tab.places]
    )
    chat_panel.wire(desk, tab.chat, tab.outputs, find, tab.places)
    deliver_panel.wire(desk, tab.deliver, tab.outputs, find, tab.places)


Find = Callable[[str | None, Places], Output]


def _list(desk: Desk, tab: ExportTab, find: Find, wishes: tuple[str | None, str], places: Places) -> Changes:
    """The list anew: what the runs brought forth, then the named folders that are still there; and what is chosen."""
    outputs = list(results.outputs(desk.paths))
    for path, place in places.items():
        try:
            found = find(path, places)
        except NotFound:  # moved or removed since it was named
            continue
        outputs.append(replace(found, verdict=place.report.verdict if place.report else None))
    by_id = {output.id: output for output in outputs}
    pick = next((wish for wish in wishes if wish in by_id), next(iter(by_id), None))
    choices = [(view.label(output, desk.lang), output.id) for output in outputs]
    return {
        tab.outputs: gr.update(choices=choices, value=pick),
        tab.list_side: gr.update(visible=bool(outputs)),
        **({} if outputs else {tab.fold: gr.update(open=True)}),
        **_show(desk, tab, by_id.get(pick or ""), places),
    }


def _show(desk: Desk, tab: ExportTab, output: Output | None, places: Places) -> Changes:
    """The chosen output: its report, or that it has none yet; and a conversation where it can be loaded."""
    if output is None:
        return {tab.report: html(view.nothing(desk.lang)), tab.chosen: gr.update(visible=False)}
    if output.run_id is None:
        report, download, summary = places[output.id].report, None, None
    else:
        report = results.read_report(desk.paths, output)
        download = f"{desk.base}/files/runs/{output.run_id}/report" + (
            f"?checkpoint={output.step}" if output.step is not None else ""
        )
        summary = f"{desk.base}/files/runs/{output.run_id}/summary" if output.step is None else None
    page = (
        view.unverified(output, desk.lang)
        if report is None
        else view.report(report, output, desk.lang, download, summary)
    )
    return {
        tab.report: html(page),
        tab.chosen: gr.update(visible=True),
        tab.check: gr.update(
            value=desk.say("ui.button.verify" if report else "ui.button.verify-first"), interactive=True
        ),
        tab.talk: gr.update(visible=output.kind in ("lora-adapter", "full-model")),
        **chat_panel.select(desk, tab.chat, output),
        **deliver_panel.select(desk, tab.deliver, output),
    }


def _again(handler: Any, number: int) -> Any:
    """The same handler under a name of its own: two events of one name collide."""

    def other(*args: Any) -> Changes:
        found: Changes = handler(*args)
        return found

    other.__name__ = f"{handler.__name__}_{number}"
    return other
