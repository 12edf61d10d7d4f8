"""A widget of the form as a Gradio component, built from its line of the table of fields.

Gradio would judge values itself and answer in English toasts; these subclasses hand them on as they come, and the form
judges them with everything else.
"""

from __future__ import annotations

import math
from abc import ABCMeta
from typing import Any

import gradio as gr
from gradio.component_meta import ComponentMeta
from gradio.components import Component

from zeroboard.messages import Language, say
from zeroboard.ui.form import COLUMNS, MIXED, OFFLOAD, OFFLOAD_WHAT, Widget, element_id


def _handing_on(name: str, component: type[Component]) -> Any:
    """The component, with values handed on as they come.

    Made past Gradio's metaclass, which would write a `.pyi` beside this file while the program runs.
    """
    ways = {"preprocess": lambda self, payload: payload, "is_template": True, "__module__": __name__}
    return ABCMeta.__new__(ComponentMeta, name, (component,), ways)


Choice = _handing_on("Choice", gr.Radio)
Number = _handing_on("Number", gr.Number)
"""Neither rounded nor bounded here."""
Several = _handing_on("Several", gr.CheckboxGroup)


def control(
    widget: Widget,
    value: Any,
    lang: Language,
    *,
    choices: list[tuple[str, str]] | None = None,
    words: str | None = None,
) -> Any:
    """The component: labelled, explained, with its key in the spec. `choices` are known from outside (models, GPUs).

    `words`: the sentences `<words>.label` and `<words>.hint` instead of the field's own.
    """
    common: dict[str, Any] = {
        "label": label(widget, lang, words),
        "info": hint(widget, lang, words) or None,
        "elem_id": element_id(widget.key),
        "elem_classes": ["zb-field"],
    }
    field = widget.field
    if widget.key == OFFLOAD:
        return gr.Checkbox(value=value, **common)
    if field.kind == "list":
        return Several(choices=choices or [], value=value, **common)
    if choices is not None:
        return gr.Dropdown(choices=choices, value=value, allow_custom_value=True, **common)
    if widget.choices:
        shown = [(choice_label(widget, c, lang), c) for c in offered(widget, value)]
        return Choice(choices=shown, value=value, **common)
    if field.kind == "switch":
        return gr.Checkbox(value=value, **common)
    if field.kind in ("integer", "number") and field.optional:  # a number box would show an empty one as 0
        return gr.Textbox(value=value, placeholder=say("ui.form.empty", lang), max_lines=1, **common)
    if field.kind in ("integer", "number"):
        step = 1 if field.kind == "integer" else _step(value)
        return Number(value=value, step=step, **common)
    return gr.Textbox(value=value, max_lines=1, **common)


STAGE = "zero.stage"
UNUSUAL = "1"
"""Stage 1 is offered only when asked for, under *advanced*."""


def offered(widget: Widget, value: Any, unusual: bool = False) -> list[str]:
    """The choices of a widget; stage 1 is among them when it is chosen or asked for."""
    return [c for c in widget.choices if widget.key != STAGE or c != UNUSUAL or unusual or value == UNUSUAL]


def label(widget: Widget, lang: Language, words: str | None = None) -> str:
    if widget.key == OFFLOAD_WHAT:
        return say("ui.form.offload-what.label", lang)
    if widget.key.startswith(COLUMNS):
        return choice_label(widget, widget.key.removeprefix(COLUMNS), lang)
    if widget.key.startswith(MIXED):
        number, name = widget.key.removeprefix(MIXED).split(".")
        return say(f"ui.mix.{name}", lang, n=int(number) + 1)
    unit = widget.field.unit
    name = say(f"{words or f'field.{widget.field.key}'}.label", lang)
    return say("ui.bracketed", lang, words=name, more=say(f"ui.unit.{unit}", lang)) if unit else name


def hint(widget: Widget, lang: Language, words: str | None = None) -> str:
    """The sentence under the label; the field's bounds; its key, as the command line and the file name it."""
    if widget.key == OFFLOAD_WHAT:
        return say("ui.form.offload-what.hint", lang)
    if widget.key.startswith(MIXED):
        return ""  # one for all of them stands above
    if widget.key.startswith(COLUMNS):
        words = f"ui.columns.{widget.key.removeprefix(COLUMNS)}"
    own = "ui.form.offload" if widget.key == OFFLOAD else f"field.{widget.field.key}"
    sentence = say(f"{words or own}.hint", lang)
    return " ".join(part for part in (sentence, bounds(widget), f"`{widget.key}`") if part)


def bounds(widget: Widget) -> str:
    """`1 … 1024`, `> 0`: what is allowed, where something is not."""
    f = widget.field
    low = f"≥ {f.ge:g}" if f.ge is not None else f"> {f.gt:g}" if f.gt is not None else ""
    high = f"≤ {f.le:g}" if f.le is not None else f"< {f.lt:g}" if f.lt is not None else ""
    if f.le is not None and f.le > 10_000:
        high = ""  # so far off that it would only be noise
    return f"({', '.join(part for part in (low, high) if part)})" if low or high else ""


def choice_label(widget: Widget, choice: str, lang: Language) -> str:
    if widget.key == OFFLOAD_WHAT:
        return say(f"ui.form.offload-what.{choice}", lang)
    return say(f"field.{widget.field.key}.choice.{choice}", lang)


def _step(value: Any) -> float:
    """What an arrow key changes: one in the value's first figure."""
    return 10.0 ** math.floor(math.log10(value)) if isinstance(value, (int, float)) and 0 < value < 1 else 1
