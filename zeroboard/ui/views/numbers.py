"""Numbers for people: always with their unit, in tabular figures, a missing one as "n/a"."""

from __future__ import annotations

import math
import time

from zeroboard.messages import Language, say


def mib(size: int | None, lang: Language) -> str:
    """Bytes as MiB, to a tenth."""
    return say("ui.none", lang) if size is None else f"{size / 2**20:,.1f} MiB"


def size(value: int | None, lang: Language) -> str:
    """Bytes in the unit that reads best."""
    if value is None:
        return say("ui.none", lang)
    for unit, step in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= step:
            return f"{value / step:,.1f} {unit}"
    return f"{value} B"


def count(value: float | None, lang: Language) -> str:
    return say("ui.none", lang) if value is None else f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def millions(value: int | None, lang: Language) -> str:
    """A number of parameters: 134.5 M, 7.24 B."""
    if value is None:
        return say("ui.none", lang)
    for unit, step in (("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if value >= step:
            return f"{value / step:,.4g} {unit}"
    return str(value)


def rate(value: float | None, lang: Language) -> str:
    """A learning rate or another small number: 1e-3, 2.5e-4; 0."""
    if value is None:
        return say("ui.none", lang)
    if value == 0:
        return "0"
    power = math.floor(math.log10(abs(value)))
    if -2 <= power < 4:
        return f"{value:.4g}"
    return f"{value / 10**power:.3g}e{power}"


def loss(value: float | None, lang: Language) -> str:
    return say("ui.none", lang) if value is None else f"{value:.4f}"


def percent(share: float | None, lang: Language) -> str:
    return say("ui.none", lang) if share is None else f"{100 * share:.0f} %"


def duration(seconds: float | None, lang: Language) -> str:
    """Seconds in words: 42 s, 3 min 05 s, 2 h 10 min."""
    if seconds is None:
        return say("ui.none", lang)
    whole = max(0, round(seconds))
    if whole < 60:
        return say("ui.duration.seconds", lang, s=whole)
    if whole < 3600:
        return say("ui.duration.minutes", lang, m=whole // 60, s=f"{whole % 60:02d}")
    return say("ui.duration.hours", lang, h=whole // 3600, m=f"{whole % 3600 // 60:02d}")


def moment(when: float | None, lang: Language) -> str:
    """A point of time in the machine's own zone: 2026-11-29 21:10."""
    return say("ui.none", lang) if when is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(when))


def short(value: float) -> str:
    """A figure for an axis: 842, 12.5k, 1.2M."""
    for unit, step in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= step:
            return f"{value / step:.3g}{unit}"
    return f"{value:.3g}"


def clock(seconds: float) -> str:
    """A point of time on an axis: 0:30, 12:00, 3:05:00 (minutes and seconds, or hours before them)."""
    whole = max(0, round(seconds))
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
