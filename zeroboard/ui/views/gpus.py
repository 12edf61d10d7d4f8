"""A card for each GPU: the same rows and the same height whatever it says, and what is missing as n/a."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from zeroboard.contract.host import GpuFacts, GpuProcess, HostFacts
from zeroboard.messages import Language, say
from zeroboard.ui.views import numbers
from zeroboard.ui.views.charts import Point, sparkline
from zeroboard.ui.views.curves import gpu_history
from zeroboard.ui.views.machine import SPAN, Beside, gpu_trouble, host_strip
from zeroboard.ui.views.markup import badge, join, rows, run_link, tag

_KIND = {"partly": "warn", "lost": "fail"}
FULL = 0.95
"""Share of its memory from which a GPU is nearly full."""
IDLE = 80.0
"""Per cent of utilisation that a GPU which trains should reach."""
IDLE_FOR = 180.0
"""Seconds over which that is averaged."""
OWN = 0.02
"""Share of the memory that the driver keeps for itself; as little without an owner is not worth a word."""
HARMLESS = frozenset({"sync-boost", "clocks-set"})
"""Words of `host.THROTTLES` that somebody chose."""


def cards(host: HostFacts, lang: Language, beside: Beside | None = None) -> Markup:
    """The host, why GPUs cannot be asked, and the GPUs in a row."""
    beside = beside or Beside()
    gpus = tag("div", *(_gpu(gpu, host, beside, lang) for gpu in host.gpus), class_="zb-gpus") if host.gpus else None
    return tag("div", host_strip(host, beside, lang), gpu_trouble(host, lang), gpus, class_="zb-machine")


def _gpu(gpu: GpuFacts, host: HostFacts, beside: Beside, lang: Language) -> Markup:
    past = gpu_history(beside.history, gpu.uuid, "utilization") if gpu.uuid in beside.mine else []
    name = (gpu.name or say("ui.none", lang)).removeprefix("NVIDIA ")
    title = tag(
        "div",
        tag("h3", f"GPU {gpu.index}"),
        badge(_KIND[gpu.state], say(f"ui.gpu.state.{gpu.state}", lang)) if gpu.state in _KIND else None,
        tag("span", name, class_="dim", title=f"{name}\n{gpu.uuid}"),
        class_="zb-title",
    )
    found = alerts(gpu, host, beside, past, lang)
    return tag(
        "section",
        title,
        _memory(gpu, beside, lang),
        _utilization(gpu, past, lang),
        rows(_facts(gpu, host, lang), "zb-facts zb-gpu-facts"),
        tag("p", *(badge("warn", words) for words in found), class_="zb-alerts", title="\n".join(found) or None),
        class_="zb-card zb-gpu mine" if gpu.uuid in beside.mine else "zb-card zb-gpu",
    )


def alerts(gpu: GpuFacts, host: HostFacts, beside: Beside, past: Sequence[Point], lang: Language) -> list[str]:
    """What is worth a look, the worst first: a stranger on the card, no memory left, clocks held down, little to do."""
    found = []
    strangers = [p for p in gpu.processes or () if p.pid not in beside.ours]
    if strangers and (gpu.uuid in beside.mine or gpu.uuid in host.held):
        found.append(say("ui.gpu.alert.stranger", lang))
    if gpu.memory_used is not None and gpu.memory_total and gpu.memory_used > FULL * gpu.memory_total:
        found.append(say("ui.gpu.alert.memory", lang))
    if set(gpu.throttle or ()) - HARMLESS:
        found.append(say("ui.gpu.alert.throttle", lang))
    mean = _mean_of_late(past)
    if beside.training and mean is not None and mean < IDLE:
        found.append(say("ui.gpu.alert.idle", lang, percent=f"{mean:.0f}", minutes=f"{IDLE_FOR / 60:g}"))
    return found


def _mean_of_late(past: Sequence[Point]) -> float | None:
    """Mean over the last `IDLE_FOR` seconds; None where they were not watched whole."""
    if not past or past[-1][0] - past[0][0] < IDLE_FOR:
        return None
    late = [y for x, y in past if x >= past[-1][0] - IDLE_FOR and y is not None]
    return sum(late) / len(late) if late else None


def _memory(gpu: GpuFacts, beside: Beside, lang: Language) -> Markup:
    """How full, and who holds it: solid is ours, striped is others', faint is what nobody owns up to."""
    name = say("ui.gpu.memory.shared" if gpu.memory_shared else "ui.gpu.memory", lang)
    shown = f"{numbers.size(gpu.memory_used, lang)} / {numbers.size(gpu.memory_total, lang)}"
    if gpu.memory_used is None and gpu.memory_total is None:
        shown = say("ui.none", lang)
    ours, others = _held(gpu.processes, beside.ours)
    words, pieces = "", []
    if gpu.memory_used is not None and gpu.memory_total:
        rest = max(0, gpu.memory_used - ours - others)
        rest = 0 if rest < OWN * gpu.memory_total else rest
        for kind, size in (("ours", ours), ("others", others), ("rest", rest)):
            share = 100 * min(1.0, size / gpu.memory_total)
            pieces.append(tag("div", "", class_=kind, style=f"width:{share:.2f}%") if size else None)
        free = max(0, gpu.memory_total - gpu.memory_used)
        told = (("ours", ours), ("others", others), ("rest", rest), ("free", free))
        said = [say(f"ui.gpu.memory.{kind}", lang, size=numbers.size(size, lang)) for kind, size in told if size]
        words = " · ".join(said)
    return tag(
        "div",
        tag("span", name, class_="dim"),
        tag("b", shown, class_="num"),
        tag("div", *pieces, class_="zb-held", aria_hidden="true"),
        tag("span", words or " ", class_="zb-who", title=words or None),
        class_="zb-reading",
    )


def _held(processes: Sequence[GpuProcess] | None, ours: frozenset[int]) -> tuple[int, int]:
    """Bytes of (our processes, others'), as far as the driver tells them."""
    mine = sum(p.memory or 0 for p in processes or () if p.pid in ours)
    return mine, sum(p.memory or 0 for p in processes or () if p.pid not in ours)


def _utilization(gpu: GpuFacts, past: Sequence[Point], lang: Language) -> Markup:
    shown = say("ui.none", lang) if gpu.utilization is None else f"{gpu.utilization:.0f} %"
    end = past[-1][0] if past else 0.0
    hint = say("ui.gpu.history", lang, minutes=f"{SPAN / 60:g}") if past else None
    return tag(
        "div",
        tag("span", say("ui.gpu.utilization", lang), class_="dim"),
        tag("b", shown, class_="num"),
        tag("div", sparkline(past, span=SPAN, end=end, top=100.0), class_="picture"),
        class_="zb-reading",
        title=hint,
    )


def _facts(gpu: GpuFacts, host: HostFacts, lang: Language) -> list[tuple[object, object]]:
    none = say("ui.none", lang)
    power = none if gpu.power is None else f"{gpu.power:.0f} W"
    if gpu.power is not None and gpu.power_limit is not None:
        power = f"{gpu.power:.0f} / {gpu.power_limit:.0f} W"
    held = host.held.get(gpu.uuid or "")
    return [
        (say("ui.gpu.temperature", lang), none if gpu.temperature is None else f"{gpu.temperature:.0f} °C"),
        (say("ui.gpu.power", lang), power),
        (say("ui.gpu.clock", lang), _clock(gpu.clock_sm, gpu.clock_sm_max, none)),
        (say("ui.gpu.clock-memory", lang), _clock(gpu.clock_memory, None, none)),
        (
            say("ui.gpu.traffic", lang),
            none if gpu.memory_utilization is None else f"{gpu.memory_utilization:.0f} %",
        ),
        (say("ui.gpu.mig", lang), _mig(gpu, lang)),
        (say("ui.gpu.throttle", lang), _throttle(gpu, lang)),
        (say("ui.gpu.processes", lang), _processes(gpu, lang)),
        (say("ui.gpu.held", lang), run_link(held, held) if held else "–"),
    ]


def _clock(now: int | None, most: int | None, none: str) -> str:
    if now is None:
        return none
    return f"{now} MHz" if most is None else f"{now} / {most} MHz"


def _throttle(gpu: GpuFacts, lang: Language) -> object:
    """Why the clocks are held down, in words."""
    if gpu.throttle is None:
        return say("ui.none", lang)
    words = say("ui.list.comma", lang).join(say(f"gpu.throttle.{reason}", lang) for reason in gpu.throttle)
    return tag("span", words, title=words) if words else say("ui.gpu.throttle.none", lang)


def _mig(gpu: GpuFacts, lang: Language) -> object:
    """How many slices, each of them on hover."""
    if gpu.mig is None:
        return say("ui.none", lang)
    if not gpu.mig:
        return say("ui.gpu.mig.off", lang)
    if gpu.slices is None:
        return say("ui.gpu.mig.on", lang)
    hover = "\n".join(
        f"{s.name or s.uuid or '?'}: {numbers.size(s.memory_used, lang)} / {numbers.size(s.memory_total, lang)}"
        for s in gpu.slices
    )
    return tag("span", say("ui.gpu.mig.slices", lang, n=len(gpu.slices)), title=hover, tabindex="0")


def _processes(gpu: GpuFacts, lang: Language) -> object:
    """Who is on the GPU: the first process with its user and memory, how many more; all with their command on hover."""
    if gpu.processes is None:
        return say("ui.none", lang)
    if not gpu.processes:
        return "–"
    named = [_process(p, lang) for p in gpu.processes]
    shown = named[0]
    if len(named) > 1:
        shown = say("ui.gpu.process.more", lang, first=shown, n=len(named) - 1)
    hover = "\n".join(
        join((words, p.command), " ") if p.command else words for words, p in zip(named, gpu.processes, strict=True)
    )
    return tag("span", shown, title=hover, tabindex="0")


def _process(process: GpuProcess, lang: Language) -> str:
    memory = numbers.size(process.memory, lang)
    key = "ui.gpu.process.of" if process.user else "ui.gpu.process"
    return say(key, lang, pid=process.pid, user=process.user, memory=memory)
