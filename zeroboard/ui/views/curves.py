"""How a training went, as charts: loss, throughput, learning rate, gradient norm, memory, and the machine beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from zeroboard.contract.readings import Reading
from zeroboard.messages import Language, say
from zeroboard.runs.snapshot import Snapshot
from zeroboard.ui.views import numbers
from zeroboard.ui.views.charts import Axes, Line, Point, line_chart
from zeroboard.ui.views.markup import join, sentences, tag

SETTLED = 5.0
"""Seconds of readings that are drawn at a time, so that the chart is not sent anew each second."""


TIMES = (10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
"""Seconds between two ticks of a time axis."""


def charts(
    shown: Snapshot,
    history: Sequence[Reading],
    lang: Language,
    rate: float | None = None,
    beside: Markup | None = None,
) -> Markup:
    """All cards; `rate` is the learning rate that was asked for, which holds its axis; `beside`: the card of the
    machine where it is drawn already."""
    return tag(
        "div",
        _loss(shown, lang),
        _throughput(shown, lang),
        _rate(shown, lang, rate),
        _norm(shown, lang),
        _peaks(shown, lang),
        beside if beside is not None else machine_card(history, lang),
        class_="zb-charts",
    )


def settled(history: Sequence[Reading]) -> Sequence[Reading]:
    """The readings up to the last full `SETTLED` seconds; at least the first one."""
    if not history:
        return history
    until = history[-1].time // SETTLED * SETTLED
    at = len(history)
    while at > 1 and history[at - 1].time > until:
        at -= 1
    return history[:at]


def _loss(shown: Snapshot, lang: Language) -> Markup:
    series = shown.series
    evaluated = [Line(points=series.evaluation, kind="dots")] if series.evaluation else []
    title = say("ui.chart.loss", lang)
    keys = [("raw", say("ui.chart.raw", lang)), ("", say("ui.chart.smooth", lang))]
    words = words_of(series.loss, lambda y: numbers.loss(y, lang), lang)
    if series.evaluation:
        keys.append(("point", say("ui.chart.evaluation", lang)))
        last = say("ui.chart.evaluation.words", lang, loss=numbers.loss(_last(series.evaluation), lang))
        words = f"{words} {last}"
    picture = line_chart(
        [Line(points=series.loss, kind="raw"), Line(points=series.smoothed), *evaluated],
        _steps(shown, lang),
        title=title,
        words=words,
        empty=say("ui.chart.waiting", lang),
    )
    return card(title, _value(series.loss, lambda y: numbers.loss(y, lang)), picture, _steps_word(lang), keys)


def _throughput(shown: Snapshot, lang: Language) -> Markup:
    series = shown.series
    title = say("ui.chart.throughput", lang)
    rates = _value(series.tokens_per_s, lambda y: f"{y:,.0f}")
    facts: list[Markup] = []
    samples = _last(series.samples_per_s)
    if samples is not None:
        facts.append(tag("span", say("ui.chart.samples", lang, n=f"{samples:,.3g}")))
    used = _last(series.mfu)
    if used is not None:
        hint = say("ui.chart.mfu.hint", lang)
        facts.append(tag("abbr", say("ui.chart.mfu", lang, share=f"{100 * used:.1f}"), title=hint))
    axes = _steps(shown, lang, format_y=numbers.short, y_from=0.0)
    words = words_of(series.tokens_per_s, lambda y: f"{y:,.0f}", lang)
    picture = line_chart(
        [Line(points=series.tokens_per_s)], axes, title=title, words=words, empty=say("ui.chart.waiting", lang)
    )
    return card(title, rates, picture, _steps_word(lang), beside=join(facts, " · ") if facts else None)


def _rate(shown: Snapshot, lang: Language, rate: float | None) -> Markup:
    title = say("ui.chart.rate", lang)
    points = shown.series.learning_rate
    told: Callable[[float], str] = lambda y: numbers.rate(y, lang)  # noqa: E731 - used three times in this function
    axes = _steps(shown, lang, format_y=told, y_from=0.0, y_to=rate)
    picture = line_chart(
        [Line(points=points)],
        axes,
        title=title,
        words=words_of(points, told, lang),
        empty=say("ui.chart.waiting", lang),
    )
    return card(title, _value(points, told), picture, _steps_word(lang))


def _norm(shown: Snapshot, lang: Language) -> Markup:
    title = say("ui.chart.norm", lang)
    points = shown.series.grad_norm
    # stage none without clipping tells no norm: then the card says so instead of waiting for ever
    empty = "ui.chart.norm.none" if shown.series.loss and not points else "ui.chart.waiting"
    picture = line_chart(
        [Line(points=points)],
        _steps(shown, lang, y_from=0.0),
        title=title,
        words=words_of(points, lambda y: f"{y:.3g}", lang),
        empty=say(empty, lang),
    )
    return card(title, _value(points, lambda y: f"{y:.3g}"), picture, _steps_word(lang))


def _peaks(shown: Snapshot, lang: Language) -> Markup:
    """The most that each rank held so far: to the scale of a GPU's memory where that is known, else of the highest."""
    title = say("ui.chart.peaks", lang)
    peaks = dict(sorted(shown.peaks.items()))
    most = max(peaks.values(), default=0)
    last = shown.history[-1].gpus if shown.history else ()
    room = max((gpu.memory_total or 0 for gpu in last), default=0)
    top = max(most, room) or 1
    bars = [
        tag(
            "li",
            tag("span", say("ui.logs.rank", lang, rank=rank)),
            tag("div", tag("div", "", class_="fill", style=f"width:{100 * peak / top:.1f}%"), class_="zb-meter"),
            tag("b", numbers.size(peak, lang), class_="num"),
        )
        for rank, peak in peaks.items()
    ]
    if not bars:
        waiting = tag("p", say("ui.chart.waiting", lang), class_="zb-peaks zb-note")
        return card(title, "–", waiting)
    long = len(bars) > ROWS
    body = tag("ul", *bars, class_="zb-peaks pairs" if long else "zb-peaks", tabindex="0" if long else None)
    scale = say("ui.chart.peaks.scale" if room else "ui.chart.peaks.highest", lang, size=numbers.size(top, lang))
    return card(title, numbers.size(most, lang), body, scale)


ROWS = 8
"""Ranks below each other; more of them stand in pairs."""


def machine_card(history: Sequence[Reading], lang: Language, gpus: bool = False) -> Markup:
    """How busy the devices were over the time of the run: each GPU a light line and their mean, or the processor.

    `gpus`: the run is known to use some, also before the first reading.
    """
    lines = busy(history)
    gpus = any(reading.gpus for reading in history) or (gpus and not history)
    title = say("ui.chart.busy.gpus" if gpus else "ui.chart.busy.cpu", lang)
    began = history[0].time if history else 0.0
    axes = Axes(
        x_label=say("ui.chart.time", lang),
        format_x=lambda x: numbers.clock(x),
        format_y=lambda y: f"{y:.0f} %",
        x_end=60.0,
        x_widths=TIMES,
        y_from=0.0,
        y_to=100.0,
    )
    last = [value for value in (_last(points) for points in lines) if value is not None]
    words = say("ui.chart.busy.words", lang, now=", ".join(f"{value:.0f} %" for value in last)) if last else ""
    several = len(lines) > 1
    kind = "raw" if several else "line"
    drawn = [Line(points=[(x - began, y) for x, y in points], kind=kind) for points in lines]
    keys: list[tuple[str, str]] = []
    if several:
        drawn.append(Line(points=[(x - began, y) for x, y in mean(lines)]))
        keys = [("raw", say("ui.chart.busy.each", lang)), ("", say("ui.chart.busy.mean", lang))]
    empty = say("ui.chart.busy.waiting", lang)
    picture = line_chart(drawn, axes, title=title, words=words, empty=empty)
    return card(title, f"{sum(last) / len(last):.0f} %" if last else "–", picture, axes.x_label, keys)


def mean(lines: Sequence[Sequence[Point]]) -> list[Point]:
    """Of several lines over the same x their mean; None where none has a value."""
    found: list[Point] = []
    for points in zip(*lines, strict=True):
        known = [y for _, y in points if y is not None]
        found.append((points[0][0], sum(known) / len(known) if known else None))
    return found


def busy(history: Sequence[Reading]) -> list[list[Point]]:
    """Of each GPU of the run (else of the processor) its utilisation over time; a reading without it is a gap."""
    uuids = sorted({(gpu.index, gpu.uuid) for reading in history for gpu in reading.gpus})
    if not uuids:
        found: list[Point] = [(reading.time, reading.cpu_percent) for reading in history]
        return [found] if any(y is not None for _, y in found) else []
    return [gpu_history(history, uuid, "utilization") for _, uuid in uuids]


def gpu_history(history: Sequence[Reading], uuid: str | None, field: str) -> list[Point]:
    """One reading of one GPU over time; None where it did not come."""
    return [
        (reading.time, next((getattr(gpu, field) for gpu in reading.gpus if gpu.uuid == uuid), None))
        for reading in history
    ]


def card(
    title: str,
    value: str,
    picture: Markup,
    axis: str = "",
    keys: Sequence[tuple[str, str]] = (),
    beside: Markup | None = None,
) -> Markup:
    """A chart with its title and its latest value (`beside` stands before that); below it the legend (`keys`: class,
    words) and what lies on the x axis."""
    legend = [tag("span", tag("span", "", class_=f"stroke {kind}".strip()), words) for kind, words in keys]
    head = tag(
        "div",
        tag("h3", title, title=title),
        tag("span", beside, class_="zb-keys") if beside is not None else None,
        tag("b", value, class_="num"),
        class_="zb-title",
    )
    foot = tag("div", *legend, tag("span", axis, class_="axis"), class_="zb-foot")
    return tag("section", head, picture, foot, class_="zb-card")


def words_of(points: Sequence[Point], told: Callable[[float], str], lang: Language) -> str:
    """What a line says, for those who do not see it: last, lowest, highest, and how many values were none."""
    known = [y for _, y in points if y is not None]
    gaps = len(points) - len(known)
    if not known:
        return say("ui.chart.waiting", lang)
    words = say("ui.chart.words", lang, last=told(known[-1]), low=told(min(known)), high=told(max(known)))
    return sentences((words, say("ui.chart.words.gaps", lang, n=gaps)), lang) if gaps else words


def _steps_word(lang: Language) -> str:
    return say("ui.chart.step", lang)


def _steps(
    shown: Snapshot,
    lang: Language,
    *,
    format_y: Callable[[float], str] = lambda y: f"{y:.3g}",
    y_from: float | None = None,
    y_to: float | None = None,
) -> Axes:
    end = float(shown.state.steps or 0)
    return Axes(x_label=_steps_word(lang), x_end=end, format_y=format_y, y_from=y_from, y_to=y_to)


def _last(points: Sequence[Point]) -> float | None:
    return next((y for _, y in reversed(points) if y is not None), None)


def _value(points: Sequence[Point], told: Callable[[float], str]) -> str:
    last = _last(points)
    return "–" if last is None else told(last)
