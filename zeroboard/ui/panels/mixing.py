"""In the data card: further files, each with a weight of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from zeroboard.contract.spec import MOST_MIXED
from zeroboard.messages import Language, say
from zeroboard.ui.form import MIXED, mixed_rows
from zeroboard.ui.views.markup import tag, worded
from zeroboard.ui.wiring import Changes, html

WEIGHT = "data.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class MixPanel:
    """The components that are shown or not; the fields are those of the form."""

    box: gr.Accordion
    rows: tuple[gr.Row, ...]

    @property
    def shown(self) -> list[Any]:
        """What `show` changes."""
        return [self.box, *self.rows]


def build(filled: Mapping[str, Any], lang: Language, controls: Callable[[str], None]) -> MixPanel:
    """The fields, which `controls` makes: those whose keys begin so."""
    used = mixed_rows(filled)
    rows = []
    with gr.Accordion(title(used, lang), open=bool(used), elem_id="f-data-more") as box:
        gr.HTML(html(tag("p", worded(say("ui.mix.hint", lang)), class_="zb-hint")))
        with gr.Row(elem_classes=["zb-mixed"]):
            controls(WEIGHT)
        for number in range(MOST_MIXED):
            with gr.Row(visible=number <= len(used), elem_classes=["zb-mixed"], elem_id=f"zb-mixed-{number}") as row:
                controls(f"{MIXED}{number}.")
            rows.append(row)
    return MixPanel(box=box, rows=tuple(rows))


def title(used: Iterable[int], lang: Language) -> str:
    """What the box is called: how many files there are in it."""
    count = len(list(used))
    return say("ui.mix.title", lang, n=count) if count else say("ui.mix.title.none", lang)


def show(panel: MixPanel, values: Mapping[str, Any], lang: Language) -> Changes:
    """The rows that are used, and an empty one."""
    used = mixed_rows(values)
    last = max(used, default=-1) + 1
    changes: dict[Any, Any] = {row: gr.update(visible=number <= last) for number, row in enumerate(panel.rows)}
    return {panel.box: gr.update(label=title(used, lang)), **changes}
