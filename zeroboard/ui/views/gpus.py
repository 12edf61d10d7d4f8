"""A card for each GPU: the same rows and the same height whatever it says, and what is missing as n/a.

What is looked at all the time stands in the card; the other readings are shown with one or two GPUs, or when asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from zeroboard.contract.host import GpuFacts, GpuProcess, HostFacts
from zeroboard.messages import Language, say
from zeroboard.ui.views import numbers
from zeroboard.ui.views.charts import Point, sparkline
from zeroboard.ui.views.curves import gpu_history
from zeroboard.ui.views.machine import SPAN, Beside, gpu_trouble, host_strip
from zeroboard.ui.views.markup import badge, rows, run_link, tag

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
LIMIT = frozenset({"power-cap"})
"""What a card that works as hard as it may says of itself: worth a word, no warning."""
COLUMNS = 4
"""GPUs beside each other at most."""
FEW = 2
"""Up to so many GPUs all readings are shown."""


@dataclass(frozen=True, slots=True)
class Alert:
    """Something worth a look on one GPU."""

    kind: str
    """`lost`, `stranger`, `memory`, `throttle`, `idle` or `limit`: the same for all GPUs that it happens to."""
    words: str
    hint: str | None = None
    warns: bool = True


def cards(host: HostFacts, lang: Language, beside: Beside | None = None) -> Markup:
    """The host, why GPUs cannot be asked, and the GPUs in a row."""
    beside = beside or Beside()
    gpus = None
    if host.gpus:
        many = "few" if len(host.gpus) <= FEW else "many"
        class_ = f"zb-gpus {many} n{min(len(host.gpus), COLUMNS)}"
        gpus = tag("div", *(_gpu(gpu, host, beside, lang) for gpu in host.gpus), class_=class_)
    return tag("div", host_strip(host, beside, lang), gpu_trouble(host, lang), gpus, class_="zb-machine")


def troubles(host: HostFacts, beside: Beside, lang: Language) -> dict[str, list[str]]:
    """What is wrong on the GPUs of the open run, in words, and on which of them, the worst first.

    A GPU is named by its number; one that the driver does not list any more by the beginning of its UUID.
    """
    found: dict[str, list[str]] = {}
    told: dict[str, str] = {}
    for gpu in host.gpus:
        if gpu.uuid not in beside.mine:
            continue
        for alert in alerts(gpu, host, beside, _past(gpu, beside), lang):
            if alert.warns:
                told.setdefault(alert.kind, say(f"ui.health.gpu.{alert.kind}", lang))
                found.setdefault(alert.kind, []).append(str(gpu.index))
    listed = {gpu.uuid for gpu in host.gpus} | {piece.uuid for gpu in host.gpus for piece in gpu.slices or ()}
    gone = sorted(uuid.removeprefix("GPU-")[:SHORT] for uuid in beside.mine - listed)
    worst = {say("ui.health.gpu.gone", lang): gone} if gone else {}
    return worst | {told[kind]: found[kind] for kind in KINDS if kind in found}


KINDS = ("lost", "stranger", "memory", "throttle", "idle")
"""Of alerts that warn, the worst first."""
SHORT = 8
"""Characters of a UUID that tell it from others."""


def _past(gpu: GpuFacts, beside: Beside) -> list[Point]:
    return gpu_history(beside.history, gpu.uuid, "utilization") if gpu.uuid in beside.mine else []


def _gpu(gpu: GpuFacts, host: HostFacts, beside: Beside, lang: Language) -> Markup:
    past = _past(gpu, beside)
    name = (gpu.name or say("ui.none", lang)).removeprefix("NVIDIA ")
    found = [alert for alert in alerts(gpu, host, beside, past, lang) if alert.kind != "lost"]
    title = tag(
        "div",
        tag("h3", f"GPU {gpu.index}", title=f"{name}\n{gpu.uuid}"),
        badge(_KIND[gpu.state], say(f"ui.gpu.state.{gpu.state}", lang)) if gpu.state in _KIND else None,
        tag("span", name, class_="zb-sr" if found else "name dim", title=name),
        _badges(found),
        class_="zb-title",
    )
    return tag(
        "section",
        title,
        _memory(gpu, beside, lang),
        _utilization(gpu, past, lang),
        rows(_vitals(gpu, lang), "zb-vitals"),
        rows(_facts(gpu, host, lang), "zb-facts zb-gpu-facts"),
        class_="zb-card zb-gpu mine" if gpu.uuid in beside.mine else "zb-card zb-gpu",
    )


def _badges(found: Iterable[Alert]) -> Markup:
    marks = (tag("span", badge("warn" if a.warns else "info", a.words), title=a.hint or a.words) for a in found)
    return tag("p", *marks, class_="zb-alerts")


def alerts(gpu: GpuFacts, host: HostFacts, beside: Beside, past: Sequence[Point], lang: Language) -> list[Alert]:
    """What is worth a look, the worst first: gone, a stranger on it, no memory left, clocks held down, little to do."""
    found = []
    if gpu.state == "lost":
        found.append(Alert("lost", say("ui.gpu.state.lost", lang)))
    strangers = [p for p in gpu.processes or () if p.pid not in beside.ours]
    if strangers and (gpu.uuid in beside.mine or gpu.uuid in host.held):
        found.append(Alert("stranger", say("ui.gpu.alert.stranger", lang), _named(strangers, lang)))
    if gpu.memory_used is not None and gpu.memory_total and gpu.memory_used > FULL * gpu.memory_total:
        found.append(Alert("memory", say("ui.gpu.alert.memory", lang)))
    reasons = set(gpu.throttle or ()) - HARMLESS
    if reasons - LIMIT:
        found.append(Alert("throttle", say("ui.gpu.alert.throttle", lang), _reasons(gpu, lang)))
    mean = _mean_of_late(past)
    if beside.training and mean is not None and mean < IDLE:
        hint = say("ui.gpu.alert.idle.hint", lang, minutes=f"{IDLE_FOR / 60:g}")
        found.append(Alert("idle", say("ui.gpu.alert.idle", lang, percent=f"{mean:.0f}"), hint))
    if reasons and not reasons - LIMIT:
        found.append(Alert("limit", say("ui.gpu.alert.limit", lang), warns=False))
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
        tag("div", sparkline(past, span=SPAN, end=end, top=100.0), class_="picture"),
        tag("b", shown, class_="num"),
        class_="zb-reading zb-busy",
        title=hint,
    )


def _vitals(gpu: GpuFacts, lang: Language) -> list[tuple[object, object]]:
    """Temperature, power and clock; the highest clock on hover."""
    none = say("ui.none", lang)
    power = none if gpu.power is None else f"{gpu.power:.0f} W"
    if gpu.power is not None and gpu.power_limit is not None:
        power = f"{gpu.power:.0f} / {gpu.power_limit:.0f} W"
    most = None if gpu.clock_sm_max is None else say("ui.gpu.clock.most", lang, most=gpu.clock_sm_max)
    return [
        (say("ui.gpu.temperature", lang), none if gpu.temperature is None else f"{gpu.temperature:.0f} °C"),
        (say("ui.gpu.power", lang), power),
        (say("ui.gpu.clock", lang), tag("span", _clock(gpu.clock_sm, none), title=most)),
    ]


def _facts(gpu: GpuFacts, host: HostFacts, lang: Language) -> list[tuple[object, object]]:
    """The other readings."""
    none = say("ui.none", lang)
    held = host.held.get(gpu.uuid or "")
    return [
        (say("ui.gpu.clock-memory", lang), _clock(gpu.clock_memory, none)),
        (say("ui.gpu.traffic", lang), none if gpu.memory_utilization is None else f"{gpu.memory_utilization:.0f} %"),
        (say("ui.gpu.mig", lang), _mig(gpu, lang)),
        (say("ui.gpu.throttle", lang), _throttle(gpu, lang)),
        (say("ui.gpu.processes", lang), _processes(gpu, lang)),
        (say("ui.gpu.held", lang), run_link(held, held) if held else "–"),
    ]


def _clock(now: int | None, none: str) -> str:
    return none if now is None else f"{now} MHz"


def _throttle(gpu: GpuFacts, lang: Language) -> object:
    """Why the clocks are held down, in words."""
    if gpu.throttle is None:
        return say("ui.none", lang)
    words = _reasons(gpu, lang)
    return tag("span", words, title=words) if words else say("ui.gpu.throttle.none", lang)


def _reasons(gpu: GpuFacts, lang: Language) -> str:
    return say("ui.list.comma", lang).join(say(f"gpu.throttle.{reason}", lang) for reason in gpu.throttle or ())


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
    return tag("span", shown, title=_named(gpu.processes, lang), tabindex="0")


def _named(processes: Iterable[GpuProcess], lang: Language) -> str:
    """Each process with its command, one a line."""
    told = ((_process(p, lang), p.command) for p in processes)
    return "\n".join(f"{words} {command}" if command else words for words, command in told)


def _process(process: GpuProcess, lang: Language) -> str:
    memory = numbers.size(process.memory, lang)
    key = "ui.gpu.process.of" if process.user else "ui.gpu.process"
    return say(key, lang, pid=process.pid, user=process.user, memory=memory)
