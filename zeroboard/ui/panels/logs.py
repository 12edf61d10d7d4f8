"""Logs: which one, what to look for, how bad it must be, and whether it follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import gradio as gr

from zeroboard.errors import NotFound
from zeroboard.services import logs
from zeroboard.services.loglines import Level
from zeroboard.ui.controls import Choice
from zeroboard.ui.desk import Desk
from zeroboard.ui.views import logs as view
from zeroboard.ui.wiring import html

LEVELS: tuple[Level, ...] = get_args(Level)
LONGEST = 200
"""Characters of what is looked for."""

Put = Callable[..., None]
"""(component, slot, value, mark) → it is sent where this browser has not seen that mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPanel:
    """The components."""

    names: gr.Radio
    search: gr.Textbox
    level: gr.Radio
    follow: gr.Checkbox
    text: gr.HTML

    @property
    def asked(self) -> list[Any]:
        return [self.names, self.search, self.level, self.follow]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a browser wants to see, as it came from there."""

    name: object = None
    search: object = ""
    level: object = "all"
    follow: object = True

    @property
    def words(self) -> str:
        return self.search.strip()[:LONGEST] if isinstance(self.search, str) else ""

    @property
    def least(self) -> Level:
        return next((level for level in LEVELS if level == self.level), "all")


def build(desk: Desk) -> LogPanel:
    names = Choice(choices=[], label=desk.say("ui.logs.choose"), elem_id="zb-log-names", elem_classes=["zb-segment"])
    with gr.Row(elem_classes=["zb-log-asked"]):
        search = gr.Textbox(
            label=desk.say("ui.logs.search.label"), placeholder=desk.say("ui.logs.search.hint"), max_lines=1,
            elem_id="zb-log-search", elem_classes=["zb-field"], scale=3, min_width=200,
        )  # fmt: skip
        level = Choice(
            choices=[(desk.say(f"ui.logs.level.{level}"), level) for level in LEVELS], value="all",
            label=desk.say("ui.logs.level.label"), elem_id="zb-log-level", elem_classes=["zb-segment", "zb-field"],
            scale=2, min_width=200,
        )  # fmt: skip
        follow = gr.Checkbox(
            value=True, label=desk.say("ui.logs.follow.label"), info=desk.say("ui.logs.follow.hint"),
            elem_id="zb-log-follow", elem_classes=["zb-field"], scale=2, min_width=200,
        )  # fmt: skip
    text = gr.HTML(html(view.nothing(desk.lang)), elem_id="zb-log", min_height=400)
    return LogPanel(names=names, search=search, level=level, follow=follow, text=text)


def show(
    desk: Desk, panel: LogPanel, run_id: str, asked: Asked, put: Put, known: Callable[[str, object], bool]
) -> None:
    """Puts what is new: the names of the logs, and the end of the chosen one unless it is held."""
    names = logs.names(desk.paths, run_id)
    if not names:
        put(panel.names, "log-names", gr.update(choices=[], value=None), names)
        put(panel.text, "log", html(view.nothing(desk.lang)))
        return
    name = str(asked.name) if asked.name in names else names[0]
    labels = [(label(desk, n), n) for n in names]
    put(panel.names, "log-names", gr.update(choices=labels, value=name), (run_id, names))
    wanted = (run_id, name, asked.words, asked.least)
    if not asked.follow and known("log-wanted", wanted):
        return  # held: it stands still until another is asked for, or it follows again
    try:
        mark = (*wanted, logs.stamp(desk.paths, run_id, name))
        if known("log", mark):
            return  # it has not grown
        put(panel.text, "log", desk.shared.drawn(f"log {desk.lang} {wanted}", mark, lambda: _text(desk, wanted)), mark)
    except NotFound:  # removed between the two looks
        return
    put(None, "log-wanted", None, wanted)


def _text(desk: Desk, wanted: tuple[str, str, str, Level]) -> str:
    run_id, name, search, level = wanted
    end = desk.shared.log(run_id, name).look(search, level)
    return html(view.tail(end, run_id=run_id, name=name, search=search, base=desk.base, lang=desk.lang))


def label(desk: Desk, name: str) -> str:
    """A log's name in words: rank 0, launcher."""
    if name.startswith("rank "):
        return desk.say("ui.logs.rank", rank=name.removeprefix("rank "))
    return desk.say(f"ui.logs.{name}")
