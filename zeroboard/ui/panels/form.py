"""The five cards of the form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gradio as gr
from gradio.components import Component
from markupsafe import Markup

from zeroboard.contract.host import HostFacts
from zeroboard.contract.hub import HubKind
from zeroboard.contract.spec import RunSpec
from zeroboard.messages import Language, say
from zeroboard.paths import Paths
from zeroboard.planning.visible import hidden, visible_gpus
from zeroboard.services import prepare
from zeroboard.ui import form
from zeroboard.ui.controls import STAGE, choice_label, control, offered
from zeroboard.ui.form import CARDS, LORA_FIELDS, Card, Widget
from zeroboard.ui.panels import data as data_panel
from zeroboard.ui.panels import fetching, mixing, tokens
from zeroboard.ui.views import numbers, plan
from zeroboard.ui.views.markup import tag
from zeroboard.ui.wiring import html

OPEN: tuple[Card, ...] = ("model", "data", "zero")
"""Cards that stand open at first; the others say in a line what is chosen."""


COUNT = "devices.count"
DEVICES = (COUNT, "devices.gpus")
"""Fields that stand beside the number of devices."""
DATA = "data.path"
EVALUATION = "data.eval_path"
NO_DRIVER = "nvml.no-library"
"""The ordinary reason why there is no GPU; others are worth telling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPanel:
    """The components of the form."""

    controls: dict[str, Component]
    """By widget key, in the order in which handlers get their values."""
    cards: dict[Card, gr.Accordion]
    model_facts: gr.HTML
    fetch: Mapping[HubKind, fetching.FetchPanel]
    """Fetch what is named by a hub."""
    data: data_panel.DataPanel
    """The data file, judged."""
    brought: data_panel.Brought
    """Files that were brought here."""
    mix: mixing.MixPanel
    """Further files."""
    lora: gr.Column
    """Shown for LoRA alone."""
    stage_one: gr.Checkbox
    """Offers stage 1 among the stages."""
    devices: gr.HTML
    """What there is to run on, as counted."""
    stages: gr.HTML
    """What each rank stores at every stage."""
    tokens: tokens.TokensPanel
    """The data as the model sees it."""
    own_json: gr.UploadButton
    """Brings a DeepSpeed file, whose values go into the form."""
    own_told: gr.HTML
    """What became of it."""

    def values(self, given: Sequence[Any]) -> dict[str, Any]:
        """What a handler was given, by widget key."""
        return dict(zip(self.controls, given, strict=True))


def build(spec: RunSpec, choices: prepare.Choices, host: HostFacts, lang: Language, paths: Paths) -> FormPanel:
    """The cards, in the order of thought, filled from a spec."""
    filled = form.from_spec(spec)
    made: dict[str, Component] = {}
    cards: dict[Card, gr.Accordion] = {}
    facts: dict[str, gr.HTML] = {}
    extra: dict[str, Any] = {}
    fetch: dict[HubKind, fetching.FetchPanel] = {}
    for card in CARDS:
        mine = [w for w in form.widgets() if w.card == card and w.key not in LORA_FIELDS]
        with gr.Accordion(
            plan.summary(card, spec, None, lang), open=card in OPEN, elem_id=f"card-{card}", elem_classes=["zb-section"]
        ) as cards[card]:
            plain = [w for w in mine if _plain(w, host)]
            if card == "zero":
                with gr.Row(elem_classes=["zb-grid"]):
                    extra["devices"] = gr.HTML(html(devices(host, lang)), elem_id="zb-devices")
                    _controls([w for w in plain if w.key in DEVICES], filled, choices, host, lang, made)
                plain = [w for w in plain if w.key not in DEVICES]
            _grid(plain, filled, choices, host, lang, made)
            if card == "data":
                fetch["dataset"] = fetching.build("dataset", lang)
                extra["brought"] = data_panel.build_brought(paths, lang)
            if card == "zero":
                extra["stages"] = gr.HTML(elem_id="zb-stages")
            if card == "model":
                fetch["model"] = fetching.build("model", lang)
                facts[card] = gr.HTML(elem_id=f"facts-{card}")
            if card == "data":
                mixed = [w for w in mine if w.key == mixing.WEIGHT or w.key.startswith(form.MIXED)]
                mine = [w for w in mine if w not in mixed]
                extra["mix"] = mixing.build(
                    filled,
                    lang,
                    partial(_mixed, mixed, filled, choices, host, lang, made),
                )
                named = [w for w in mine if w.key.startswith(form.COLUMNS)]
                mine = [w for w in mine if w not in named]
                make = partial(_grid, named, filled, choices, host, lang, made)
                extra["data"] = data_panel.build(lang, make)
                extra["tokens"] = tokens.build(lang)
            if card == "method":
                lora = [w for w in form.widgets() if w.key in LORA_FIELDS]
                with gr.Column(visible=spec.method.kind == "lora") as extra["lora"]:
                    _grid([w for w in lora if not w.advanced], filled, choices, host, lang, made)
                    _advanced([w for w in lora if w.advanced], filled, choices, host, lang, made)
            rest = [w for w in mine if not _plain(w, host)]
            if card == "zero":
                with gr.Accordion(say("ui.form.advanced", lang), open=False, elem_classes=["zb-advanced"]):
                    extra["stage_one"] = gr.Checkbox(
                        value=spec.zero.stage == "1",
                        label=say("ui.form.stage-one.label", lang),
                        info=say("ui.form.stage-one.hint", lang),
                        elem_id="f-stage-one",
                        elem_classes=["zb-field"],
                    )
                    extra["own_json"] = gr.UploadButton(
                        say("ui.button.own-json", lang), size="sm", elem_id="zb-own-json"
                    )
                    extra["own_told"] = gr.HTML(html(tag("p", say("ui.own-json.hint", lang), class_="zb-hint")))
                    _grid(rest, filled, choices, host, lang, made)
            elif rest:
                _advanced(rest, filled, choices, host, lang, made)
    order = [w.key for w in form.widgets() if w.key in made]
    return FormPanel(
        controls={key: made[key] for key in order},
        cards=cards,
        model_facts=facts["model"],
        fetch=fetch,
        data=extra["data"],
        brought=extra["brought"],
        mix=extra["mix"],
        lora=extra["lora"],
        stage_one=extra["stage_one"],
        devices=extra["devices"],
        stages=extra["stages"],
        tokens=extra["tokens"],
        own_json=extra["own_json"],
        own_told=extra["own_told"],
    )


def _plain(widget: Widget, host: HostFacts) -> bool:
    """Whether a widget stands in the open: the picker of GPUs does where there are GPUs to pick."""
    return not widget.advanced if widget.key != "devices.gpus" else bool(visible_gpus(host))


def _mixed(
    mine: Sequence[Widget],
    filled: Mapping[str, Any],
    choices: prepare.Choices,
    host: HostFacts,
    lang: Language,
    made: dict[str, Component],
    start: str,
) -> None:
    """The widgets of a further file, those whose keys begin so."""
    _controls([widget for widget in mine if widget.key.startswith(start)], filled, choices, host, lang, made)


def _grid(
    mine: Sequence[Widget],
    filled: Mapping[str, Any],
    choices: prepare.Choices,
    host: HostFacts,
    lang: Language,
    made: dict[str, Component],
) -> None:
    with gr.Row(elem_classes=["zb-grid"]):
        _controls(mine, filled, choices, host, lang, made)


def _controls(
    mine: Sequence[Widget],
    filled: Mapping[str, Any],
    choices: prepare.Choices,
    host: HostFacts,
    lang: Language,
    made: dict[str, Component],
) -> None:
    for widget in mine:
        words = None
        if widget.key == COUNT:
            words = "ui.form.gpus.count" if visible_gpus(host) else "ui.form.processes"
        elif widget.key == "devices.gpus" and not visible_gpus(host):
            words = "ui.form.gpus.none"
        made[widget.key] = control(
            widget, filled[widget.key], lang, choices=_choices(widget, filled, choices, host, lang), words=words
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
    if names_data(widget.key):
        return data_choices(widget.key, choices.datasets, lang)
    if widget.key.startswith(form.COLUMNS):
        picked = filled[widget.key]
        return [(say("ui.columns.as-named", lang), ""), *([(picked, picked)] if picked else [])]
    if widget.key == "devices.gpus":
        return gpu_choices(host, filled[widget.key] or [], lang)
    return None


def names_data(key: str) -> bool:
    """Whether a widget holds the name or path of data."""
    return key in (DATA, EVALUATION) or (key.startswith(form.MIXED) and key.endswith(".path"))


def data_choices(key: str, datasets: Sequence[str], lang: Language) -> list[tuple[str, str]]:
    """What data can be chosen by name; where none has to be, also none."""
    none = [] if key == DATA else [(say("ui.mix.none", lang), "")]
    return [*none, *((name, name) for name in datasets)]


def gpu_choices(host: HostFacts, picked: Sequence[str], lang: Language) -> list[tuple[str, str]]:
    """The GPUs with free memory and who holds them; one that was picked and is not here stays in sight."""
    found = []
    lost = [gpu for gpu in host.gpus if gpu.uuid is not None and gpu.state == "lost"]
    for gpu in sorted((*visible_gpus(host), *lost), key=lambda gpu: gpu.index):
        free = None
        if gpu.memory_total is not None and gpu.memory_used is not None:
            free = gpu.memory_total - gpu.memory_used
        held = host.held.get(gpu.uuid or "")
        how = "lost" if gpu.state == "lost" else "held" if held else "used" if gpu.processes else None
        name = (gpu.name or "GPU").removeprefix("NVIDIA ")
        words = say(
            f"ui.gpu.choice.{how}" if how else "ui.gpu.choice",
            lang,
            index=gpu.index,
            name=name,
            free=numbers.size(free, lang),
            run=held,
            pid=gpu.processes[0].pid if gpu.processes else None,
        )
        found.append((words, gpu.uuid or ""))
    here = {uuid for _, uuid in found}
    return found + [(say("ui.gpu.choice.absent", lang, uuid=uuid), uuid) for uuid in picked if uuid not in here]


def devices(host: HostFacts, lang: Language) -> Markup:
    """The number of devices, as counted and not to be changed; and what there is instead where there are none."""
    seen, away = len(visible_gpus(host)), hidden(host)
    if seen:
        count = say("ui.devices.count.one" if seen == 1 else "ui.devices.count.value", lang, n=seen)
        hint = say("ui.devices.count.visible" if away else "ui.devices.count.hint", lang, found=seen + away)
    else:
        count = say("ui.devices.count.cpu", lang, ranks=min(2, host.cpu_count))
        hint = say("ui.devices.count.none" if away else "ui.devices.count.cpu.hint", lang, found=away)
        if host.nvml is not None and host.nvml != NO_DRIVER:
            hint = say(host.nvml, lang) + " " + say(f"{host.nvml}.remedy", lang)
    return tag(
        "div",
        tag("div", say("ui.devices.count", lang), class_="zb-label"),
        tag("div", hint, class_="zb-hint"),
        tag("output", count, class_="zb-fixed", aria_label=say("ui.devices.count", lang)),
        class_="zb-fixed-field",
    )


def stages(widget: Widget, with_one: bool, lang: Language) -> list[tuple[str, str]]:
    """The choices of the stage, with stage 1 or without."""
    return [(choice_label(widget, c, lang), c) for c in offered(widget, None, unusual=with_one)]


def stage_widget() -> Widget:
    return next(w for w in form.widgets() if w.key == STAGE)
