"""In the cards of model and data: what is named by a hub is fetched here, and can be ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from zeroboard.contract.hub import HubKind
from zeroboard.messages import Language, say
from zeroboard.planning import hub
from zeroboard.services.fetching import Job
from zeroboard.ui.desk import Desk
from zeroboard.ui.form import MIXED, mixed_rows
from zeroboard.ui.views import fetching as view
from zeroboard.ui.wiring import Changes, html

TICK = 1.0
"""Seconds between two looks at what is coming."""
PATHS: Mapping[HubKind, str] = {"model": "model.path", "dataset": "data.path"}
EVALUATION = "data.eval_path"
CODE = "model.trust_remote_code"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPanel:
    """The components; all of them are hidden where no hub is meant."""

    kind: HubKind
    box: gr.Column
    start: gr.Button
    stop: gr.Button
    token: gr.Textbox
    """Typed once: no part of the form, so nothing keeps it."""
    status: gr.HTML
    timer: gr.Timer

    @property
    def shown(self) -> list[Any]:
        """What `show` changes."""
        return [self.box, self.start, self.stop, self.token, self.status, self.timer]


def build(kind: HubKind, lang: Language) -> FetchPanel:
    """The button, the field for a token, and what is told."""
    name = "zb-fetch" if kind == "model" else "zb-fetch-data"
    with gr.Column(visible=False, elem_id=f"{name}-box") as box:
        token = gr.Textbox(
            label=say("ui.fetch.token", lang), info=say("ui.fetch.token.hint", lang), type="password",
            elem_id=f"{name}-token", elem_classes=["zb-field"],
        )  # fmt: skip
        start = gr.Button(say("ui.fetch.start", lang), size="sm", elem_id=name)
        stop = gr.Button(say("ui.fetch.stop", lang), size="sm", visible=False, elem_id=f"{name}-stop")
        status = gr.HTML(elem_id=f"{name}-status")
    timer = gr.Timer(TICK, active=False)
    return FetchPanel(kind=kind, box=box, start=start, stop=stop, token=token, status=status, timer=timer)


def show(desk: Desk, panel: FetchPanel, text: str) -> dict[Any, Any]:
    """What the panel shows of a name."""
    job = desk.shared.fetching.look(text, panel.kind)
    ref = hub.parse(text, panel.kind)
    going = _going(job)
    known = hub.find(ref, desk.paths) if ref is not None else None
    told = view.status(job, known, desk.lang) if ref is not None else None
    words = "ui.fetch.start" if known is None else "ui.fetch.again"
    return {
        panel.box: gr.update(visible=ref is not None),
        panel.start: gr.update(visible=not going, value=desk.say(words)),
        panel.stop: gr.update(visible=going),
        panel.token: gr.update(visible=not going),
        panel.status: html(told) if told is not None else "",
        panel.timer: gr.Timer(TICK, active=going),
    }


def named(desk: Desk, kind: HubKind, values: Mapping[str, Any]) -> str:
    """What is to be fetched: of several data sets the one that is coming, else the first that is not here yet."""
    keys = [PATHS[kind]]
    if kind == "dataset":
        keys += [*(f"{MIXED}{n}.path" for n in mixed_rows(values)), EVALUATION]
    texts = [str(values[key] or "").strip() for key in keys]
    of_hub = {text: ref for text in texts if (ref := hub.parse(text, kind)) is not None}
    coming = [text for text in of_hub if _going(desk.shared.fetching.look(text, kind))]
    absent = [text for text, ref in of_hub.items() if hub.find(ref, desk.paths) is None]
    return next(iter((*coming, *absent, *of_hub)), texts[0])


def _going(job: Job | None) -> bool:
    return job is not None and not job.ended.is_set()


def wire(
    desk: Desk,
    panel: FetchPanel,
    *,
    follow: Callable[..., Changes],
    offer: Callable[[Mapping[str, Any]], Changes],
    values: Callable[[tuple[Any, ...]], dict[str, Any]],
    inputs: list[Any],
    follows: list[Any],
    offered: list[Any],
) -> None:
    """`follow` shows all that hangs on the form (`inputs` → `follows`); `offer` changes the choices (`offered`)."""
    fetching, kind = desk.shared.fetching, panel.kind

    def start_fetch(token: str | None, *given: Any) -> Changes:
        now = values(given[1:])  # `written` stands in front of the values
        text = named(desk, kind, now)
        fetching.start(text, kind=kind, code=kind == "model" and bool(now[CODE]), token=token or None)
        return {**show(desk, panel, text), panel.token: gr.update(value="", visible=False)}

    def stop_fetch(*given: Any) -> Changes:
        text = named(desk, kind, values(given[1:]))
        job = fetching.look(text, kind)
        if job is not None:
            job.stop.set()
            job.ended.wait(TICK)
        return show(desk, panel, text)

    def watch_fetch(written: Any, *given: Any) -> Changes:
        now = values(given)
        text = named(desk, kind, now)
        if _going(fetching.look(text, kind)):
            return show(desk, panel, text)
        return {**follow(written, *given), **offer(now)}

    on = desk.wire.on
    on([panel.start.click, panel.token.submit], start_fetch, inputs=[panel.token, *inputs], outputs=panel.shown)
    on(panel.stop.click, stop_fetch, inputs=inputs, outputs=panel.shown)
    on(panel.timer.tick, watch_fetch, inputs=inputs, outputs=[*follows, *offered], quiet=True)
