"""The machine: a strip for the host, and a card for each GPU. A reading that is missing is drawn as n/a."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from zeroboard.contract.host import HostFacts
from zeroboard.contract.readings import Reading
from zeroboard.messages import Language, has, say
from zeroboard.ui.views import numbers
from zeroboard.ui.views.charts import Point, sparkline
from zeroboard.ui.views.markup import badge, tag

SPAN = 900.0
"""Seconds that a sparkline looks back."""
NO_DRIVER = "nvml.no-library"
"""The ordinary reason why there is no GPU; others are worth telling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What a run adds to the facts of the machine."""

    ours: frozenset[int] = frozenset()
    """Processes of ZeroBoard's runs."""
    mine: frozenset[str] = frozenset()
    """UUIDs of the GPUs that the open run takes."""
    training: bool = False
    """The open run is training now, so its GPUs should be busy."""
    history: Sequence[Reading] = ()
    """The run's readings so far."""


def host_strip(host: HostFacts, beside: Beside, lang: Language) -> Markup:
    """Memory, processor, disk and shared memory of the host (or of what this container may use of them)."""
    history = beside.history
    title = tag("div", tag("h3", say("ui.host.title", lang)), tag("span", host.hostname, class_="dim"))
    readings = (
        _memory(host, [(r.time, _share(r.memory_used, r.memory_total)) for r in history], lang),
        _processor(host, [(r.time, r.cpu_percent) for r in history], lang),
        _space(say("ui.host.disk", lang), host.disk_free, host.disk_total, lang),
        _space(say("ui.host.shm", lang), host.shm_free, host.shm_total, lang),
    )
    return tag("section", title, *readings, class_="zb-card zb-host")


def gpu_trouble(host: HostFacts, lang: Language) -> Markup | None:
    """Why the GPUs cannot be asked, and what to do; None where they can, or where there are none to ask."""
    if host.nvml is None or host.nvml == NO_DRIVER:
        return None
    remedy = f"{host.nvml}.remedy"
    words = tag("span", say(remedy, lang), class_="remedy") if has(remedy, lang) else None
    mark = badge("warn", say("ui.gpu.none-told", lang))
    return tag("div", mark, tag("p", say(host.nvml, lang), " ", words), class_="zb-notice warning zb-gpu-trouble")


def _memory(host: HostFacts, past: Sequence[Point], lang: Language) -> Markup:
    used, total = host.memory_total - host.memory_available, host.memory_total
    name, hint = say("ui.host.memory", lang), None
    if host.memory_limit is not None and host.memory_limit < total:
        hint = say("ui.host.limit.hint", lang, all=numbers.size(total, lang))
        name = say("ui.host.memory.limit", lang)
        used, total = host.memory_in_group or 0, host.memory_limit
    shown = say("ui.host.of", lang, used=numbers.size(used, lang), all=numbers.size(total, lang))
    return reading(name, shown, used / total if total else None, past=past, top=1.0, hint=hint)


def _processor(host: HostFacts, past: Sequence[Point], lang: Language) -> Markup:
    busy = None if host.cpu_percent is None else host.cpu_percent / 100
    name, hint = say("ui.host.cpu", lang, cores=host.cpu_count), None
    if host.cpu_limit is not None and host.cpu_limit < host.cpu_count:
        name = say("ui.host.cpu.limit", lang, cores=f"{host.cpu_limit:g}")
        hint = say("ui.host.cpu.limit.hint", lang, all=host.cpu_count)
    shown = say("ui.none", lang) if busy is None else numbers.percent(busy, lang)
    return reading(name, shown, busy, past=past, top=100.0, hint=hint)


def _space(name: str, free: int | None, total: int | None, lang: Language) -> Markup:
    hint = say("ui.host.of-all", lang, all=numbers.size(total, lang)) if total else None
    share = None if free is None or not total else (total - free) / total
    return reading(name, numbers.size(free, lang), share, hint=hint)


def reading(
    name: str, value: str, share: float | None, *, past: Sequence[Point] = (), top: float = 1.0, hint: str | None = None
) -> Markup:
    """A name, its value, a bar; where there is a past, a small line of it instead of the bar."""
    end = past[-1][0] if past else 0.0
    picture = sparkline(past, span=SPAN, end=end, top=top) if len(past) > 1 else meter(share)
    return tag(
        "div",
        tag("span", name, class_="dim"),
        tag("b", value, class_="num"),
        tag("div", picture, class_="picture"),
        class_="zb-reading",
        title=hint,
    )


def meter(share: float | None) -> Markup:
    fill = tag("div", "", class_="fill", style=f"width:{100 * min(max(share or 0.0, 0.0), 1.0):.1f}%")
    return tag("div", fill, class_="zb-meter", aria_hidden="true")


def _share(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None
