"""The machine: a strip for the host, and a card for each GPU. A reading that is missing is drawn as n/a."""

from __future__ import annotations

from markupsafe import Markup

from zeroboard.contract.host import GpuFacts, HostFacts
from zeroboard.messages import Language, say
from zeroboard.ui.views import numbers
from zeroboard.ui.views.markup import badge, join, rows, run_link, tag

_KIND = {"partly": "warn", "lost": "fail"}


def cards(host: HostFacts, lang: Language) -> Markup:
    """The host, then the GPUs in a row; the same height whatever they say."""
    gpus = tag("div", *(_gpu(gpu, host, lang) for gpu in host.gpus), class_="zb-gpus") if host.gpus else None
    return tag("div", _host(host, lang), gpus, class_="zb-machine")


def _host(host: HostFacts, lang: Language) -> Markup:
    used = host.memory_total - host.memory_available
    busy = None if host.cpu_percent is None else host.cpu_percent / 100
    spent = host.disk_total - host.disk_free
    total = numbers.size(host.memory_total, lang)
    readings = [
        _reading(
            say("ui.host.memory", lang),
            say("ui.host.of", lang, used=numbers.size(used, lang), all=total),
            used / host.memory_total if host.memory_total else None,
        ),
        _reading(
            say("ui.host.cpu", lang, cores=host.cpu_count),
            say("ui.none", lang) if busy is None else numbers.percent(busy, lang),
            busy,
        ),
        _reading(
            say("ui.host.disk", lang),
            numbers.size(host.disk_free, lang),
            spent / host.disk_total if host.disk_total else None,
        ),
    ]
    title = tag("div", tag("h3", say("ui.host.title", lang)), tag("span", host.hostname, class_="dim"))
    return tag("section", title, *readings, class_="zb-card zb-host")


def _reading(name: str, value: str, share: float | None) -> Markup:
    return tag(
        "div", tag("span", name, class_="dim"), tag("b", value, class_="num"), _meter(share), class_="zb-reading"
    )


def _gpu(gpu: GpuFacts, host: HostFacts, lang: Language) -> Markup:
    none = say("ui.none", lang)
    full = gpu.memory_used / gpu.memory_total if gpu.memory_used is not None and gpu.memory_total else None
    power = none if gpu.power is None else f"{gpu.power:.0f} W"
    if gpu.power is not None and gpu.power_limit is not None:
        power = f"{gpu.power:.0f} / {gpu.power_limit:.0f} W"
    held = host.held.get(gpu.uuid or "")
    pairs: list[tuple[object, object]] = [
        (say("ui.gpu.utilization", lang), none if gpu.utilization is None else f"{gpu.utilization:.0f} %"),
        (say("ui.gpu.temperature", lang), none if gpu.temperature is None else f"{gpu.temperature:.0f} °C"),
        (say("ui.gpu.power", lang), power),
        (say("ui.gpu.processes", lang), _processes(gpu, lang)),
        (say("ui.gpu.held", lang), run_link(held, held) if held else "–"),
    ]
    memory = f"{numbers.size(gpu.memory_used, lang)} / {numbers.size(gpu.memory_total, lang)}"
    return tag(
        "section",
        tag(
            "div",
            tag("h3", f"GPU {gpu.index}"),
            badge(_KIND[gpu.state], say(f"ui.gpu.state.{gpu.state}", lang)) if gpu.state in _KIND else None,
            tag("span", (gpu.name or none).removeprefix("NVIDIA "), class_="dim", title=gpu.uuid),
            class_="zb-title",
        ),
        _reading(say("ui.gpu.memory", lang), memory, full),
        rows(pairs),
        class_="zb-card zb-gpu",
    )


def _processes(gpu: GpuFacts, lang: Language) -> object:
    """Who is on the GPU: the first process with its memory, and how many more; all of them on hover."""
    if gpu.processes is None:
        return say("ui.none", lang)
    if not gpu.processes:
        return "–"
    named = [say("ui.gpu.process", lang, pid=p.pid, memory=numbers.size(p.memory, lang)) for p in gpu.processes]
    shown = named[0]
    if len(named) > 1:
        shown = say("ui.gpu.process.more", lang, first=shown, n=len(named) - 1)
    hover = "\n".join(f"{words} {p.command or ''}" for words, p in zip(named, gpu.processes, strict=True))
    return tag("span", shown, title=hover)


def _meter(share: float | None) -> Markup:
    fill = tag("div", "", class_="fill", style=f"width:{100 * min(max(share or 0.0, 0.0), 1.0):.1f}%")
    return tag("div", join((fill,)), class_="zb-meter", aria_hidden="true")
