"""The five cards of the form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.components import Component

from zeroboard.contract.host import HostFacts
from zeroboard.contract.spec import RunSpec
from zeroboard.messages import Language, say
from zeroboard.services import prepare
from zeroboard.ui import form
from zeroboard.ui.controls import STAGE, choice_label, control, offered
from zeroboard.ui.form import CARDS, LORA_FIELDS, Card, Widget
from zeroboard.ui.views import header, numbers, plan

OPEN: tuple[Card, ...] = ("model", "data", "zero")
"""Cards that stand open at first; the others say in a line what is chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPanel:
    """The components of the form."""

    controls: dict[str, Component]
    """By widget key, in the order in which handlers get their values."""
    cards: dict[Card, gr.Accordion]
    model_facts: gr.HTML
    data_facts: gr.HTML
    lora: gr.Column
    """Shown for LoRA alone."""
    stage_one: gr.Checkbox
    """Offers stage 1 among the stages."""

    def values(self, given: Sequence[Any]) -> dict[str, Any]:
        """What a handler was given, by widget key."""
        return dict(zip(self.controls, given, strict=True))


def build(spec: RunSpec, choices: prepare.Choices, host: HostFacts, lang: Language) -> FormPanel:
    """The cards, in the order of thought, filled from a spec."""
    filled = form.from_spec(spec)
    made: dict[str, Component] = {}
    cards: dict[Card, gr.Accordion] = {}
    facts: dict[str, gr.HTML] = {}
    extra: dict[str, Any] = {}
    for card in CARDS:
        mine = [w for w in form.widgets() if w.card == card and w.key not in LORA_FIELDS]
        with gr.Accordion(
            plan.summary(card, spec, None, lang), open=card in OPEN, elem_id=f"card-{card}", elem_classes=["zb-section"]
        ) as cards[card]:
            if card == "zero":
                gr.HTML(f'<p class="zb-note">{devices(host, lang)}</p>')
            _grid([w for w in mine if _plain(w, host)], filled, choices, host, lang, made)
            if card in ("model", "data"):
                facts[card] = gr.HTML(elem_id=f"facts-{card}")
            if card == "method":
                lora = [w for w in form.widgets() if w.key in LORA_FIELDS]
                with gr.Column(visible=spec.method.kind == "lora") as extra["lora"]:
                    _grid([w for w in lora if not w.advanced], filled, choices, host, lang, made)
                    _advanced([w for w in lora if w.advanced], filled, choices, host, lang, made)
            rest = [w for w in mine if w.advanced and not _plain(w, host) and w.key != "devices.gpus"]
            if card == "zero":
                with gr.Accordion(say("ui.form.advanced", lang), open=False, elem_classes=["zb-advanced"]):
                    extra["stage_one"] = gr.Checkbox(
                        value=spec.zero.stage == "1",
                        label=say("ui.form.stage-one.label", lang),
                        info=say("ui.form.stage-one.hint", lang),
                        elem_id="f-stage-one",
                        elem_classes=["zb-field"],
                    )
                    _grid(rest, filled, choices, host, lang, made)
            elif rest:
                _advanced(rest, filled, choices, host, lang, made)
    order = [w.key for w in form.widgets() if w.key in made]
    return FormPanel(
        controls={key: made[key] for key in order},
        cards=cards,
        model_facts=facts["model"],
        data_facts=facts["data"],
        lora=extra["lora"],
        stage_one=extra["stage_one"],
    )


def _plain(widget: Widget, host: HostFacts) -> bool:
    """Whether a widget stands in the open: the picker of GPUs does where there are GPUs to pick."""
    return not widget.advanced if widget.key != "devices.gpus" else bool(host.gpus)


def _grid(
    mine: Sequence[Widget],
    filled: Mapping[str, Any],
    choices: prepare.Choices,
    host: HostFacts,
    lang: Language,
    made: dict[str, Component],
) -> None:
    with gr.Row(elem_classes=["zb-grid"]):
        for widget in mine:
            made[widget.key] = control(
                widget, filled[widget.key], lang, choices=_choices(widget, filled, choices, host, lang)
            )


def _advanced(
    mine: Sequence[Widget],
    filled: Mapping[str, Any],
    choices: prepare.Choices,
    host: HostFacts,
    lang: Language,
    made: dict[str, Component],
) -> None:
    with gr.Accordion(say("ui.form.advanced", lang), open=False, elem_classes=["zb-advanced"]):
        _grid(mine, filled, choices, host, lang, made)


def _choices(
    widget: Widget, filled: Mapping[str, Any], choices: prepare.Choices, host: HostFacts, lang: Language
) -> list[tuple[str, str]] | None:
    """Choices that are known from outside the spec."""
    if widget.key == "model.path":
        return [(name, name) for name in choices.models]
    if widget.key == "data.path":
        return [(name, name) for name in choices.datasets]
    if widget.key == "devices.gpus":
        return [
            (gpu_label(gpu.index, gpu.name, gpu.memory_used, gpu.memory_total, lang), gpu.uuid or "")
            for gpu in host.gpus
        ]
    return None


def gpu_label(index: int, name: str | None, used: int | None, total: int | None, lang: Language) -> str:
    free = total - used if total is not None and used is not None else None
    return say("ui.gpu.choice", lang, index=index, name=name or "GPU", free=numbers.size(free, lang))


def devices(host: HostFacts, lang: Language) -> str:
    """What is here to run on, as counted."""
    if host.gpus:
        return say("ui.devices.gpus", lang, n=len(host.gpus), machine=header.machine(host, None, lang))
    return say("ui.devices.cpu", lang)


def stages(widget: Widget, with_one: bool, lang: Language) -> list[tuple[str, str]]:
    """The choices of the stage, with stage 1 or without."""
    return [(choice_label(widget, c, lang), c) for c in offered(widget, None, unusual=with_one)]


def stage_widget() -> Widget:
    return next(w for w in form.widgets() if w.key == STAGE)
