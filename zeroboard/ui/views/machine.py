"""The machine: a card for the host, and one for each GPU. A reading that is missing is drawn as n/a."""

from __future__ import annotations

from markupsafe import Markup

from zeroboard.contract.host import GpuFacts, HostFacts
from zeroboard.messages import Language, say
from zeroboard.ui.views import numbers
from zeroboard.ui.views.markup import rows, tag


def cards(host: HostFacts, lang: Language) -> Markup:
    """Host and GPUs in a row."""
    return tag("div", _host(host, lang), *(_gpu(gpu, lang) for gpu in host.gpus), class_="zb-machine")


def _host(host: HostFacts, lang: Language) -> Markup:
    used = host.memory_total - host.memory_available
    pairs = [
        (say("ui.host.memory", lang), f"{numbers.size(used, lang)} / {numbers.size(host.memory_total, lang)}"),
        (
            say("ui.host.cpu", lang, cores=host.cpu_count),
            say("ui.none", lang) if host.cpu_percent is None else f"{host.cpu_percent:.0f} %",
        ),
        (say("ui.host.disk", lang), numbers.size(host.disk_free, lang)),
    ]
    return _card(say("ui.host.title", lang), host.hostname, used / host.memory_total, pairs)


def _gpu(gpu: GpuFacts, lang: Language) -> Markup:
    none = say("ui.none", lang)
    full = gpu.memory_used / gpu.memory_total if gpu.memory_used is not None and gpu.memory_total else None
    power = none if gpu.power is None else f"{gpu.power:.0f} W"
    if gpu.power is not None and gpu.power_limit is not None:
        power = f"{gpu.power:.0f} / {gpu.power_limit:.0f} W"
    pairs = [
        (say("ui.gpu.memory", lang), f"{numbers.size(gpu.memory_used, lang)} / {numbers.size(gpu.memory_total, lang)}"),
        (say("ui.gpu.utilization", lang), none if gpu.utilization is None else f"{gpu.utilization:.0f} %"),
        (say("ui.gpu.temperature", lang), none if gpu.temperature is None else f"{gpu.temperature:.0f} °C"),
        (say("ui.gpu.power", lang), power),
        (say("ui.gpu.processes", lang), none if gpu.processes is None else str(len(gpu.processes))),
    ]
    return _card(f"GPU {gpu.index}", gpu.name or none, full, pairs)


def _card(title: str, name: str, full: float | None, pairs: list[tuple[str, str]]) -> Markup:
    bar = tag(
        "div",
        tag("div", "", class_="fill", style=f"width:{100 * (full or 0):.1f}%"),
        class_="zb-meter",
        aria_hidden="true",
    )
    return tag(
        "section",
        tag("div", tag("h3", title), tag("span", name, class_="dim"), class_="zb-title"),
        bar,
        rows(pairs),
        class_="zb-card",
    )
