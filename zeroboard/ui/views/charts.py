"""A line chart as inline SVG: one size whatever the data, colours from the stylesheet, numbers in words too."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup

from zeroboard.ui.views.markup import join, tag

WIDTH, HEIGHT = 560, 218
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 42
MOST = 300
"""Points that are drawn; more are thinned so that peaks stay."""

Point = tuple[float, float | None]
"""(x, y); y None is a gap."""


def line_chart(
    points: Sequence[Point],
    *,
    title: str,
    words: str,
    x_label: str,
    format_y: Callable[[float], str],
    x_end: float | None = None,
    y_from: float | None = None,
    smooth: bool = False,
    empty: str,
) -> Markup:
    """The chart. `title` and `words` are what is read aloud; `x_end` fixes the right end, `y_from` the lower.

    `smooth` draws the points lightly and a smoothed line over them.
    """
    drawn = [p for p in points if p[1] is not None and math.isfinite(p[1])]
    inside: list[Markup] = []
    if drawn:
        ys = [y for _, y in drawn if y is not None]
        low, high, ticks = _scale(min(ys) if y_from is None else min(y_from, *ys), max(ys))
        first = min(0.0, points[0][0])
        last = max(x_end or 0, points[-1][0], first + 1)
        wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

        def at(x: float, y: float) -> tuple[float, float]:
            return LEFT + wide * (x - first) / (last - first), TOP + tall * (1 - (y - low) / (high - low))

        for tick in ticks:
            _, y = at(first, tick)
            inside.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=_n(y), y2=_n(y), class_="grid"))
            inside.append(tag("text", format_y(tick), x=LEFT - 6, y=_n(y + 3.5), text_anchor="end"))
        for step in _steps(first, last):
            x, _ = at(step, low)
            inside.append(tag("text", f"{step:,.0f}", x=_n(x), y=HEIGHT - BOTTOM + 15, text_anchor="middle"))
        for run in _runs(_thin(points)):
            spots = [at(x, y) for x, y in run]
            inside.append(_polyline(spots, "raw" if smooth else "line"))
            if len(points) <= 40 and not smooth:
                inside.extend(tag("circle", cx=_n(x), cy=_n(y), r="2", class_="dot") for x, y in spots)
        if smooth:
            inside.extend(_polyline([at(x, y) for x, y in run], "line") for run in _runs(_thin(smoothed(points))))
        end = drawn[-1]
        x, y = at(end[0], end[1] or 0.0)
        inside.append(tag("circle", cx=_n(x), cy=_n(y), r="3.5", class_="now"))
    else:
        inside.append(tag("text", empty, x=WIDTH / 2, y=HEIGHT / 2, text_anchor="middle", class_="nothing"))
    base = HEIGHT - BOTTOM
    inside.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=base, y2=base, class_="axis"))
    inside.append(tag("text", x_label, x=WIDTH - RIGHT, y=HEIGHT - 4, text_anchor="end", class_="label"))
    return tag(
        "svg",
        tag("title", title),
        tag("desc", words),
        join(inside),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{title}. {words}",
        class_="zb-chart",
    )


def smoothed(points: Sequence[Point], weight: float = 0.8) -> list[Point]:
    """An exponential moving average, freed of the weight of its first value; gaps stay gaps.

    (Kingma and Ba, arXiv 1412.6980, section 3, correct their moments in the same way.)
    """
    mean, share = 0.0, 0.0
    found: list[Point] = []
    for x, y in points:
        if y is None or not math.isfinite(y):
            found.append((x, None))
            continue
        mean, share = weight * mean + (1 - weight) * y, weight * share + 1 - weight
        found.append((x, mean / share))
    return found


def _polyline(spots: Sequence[tuple[float, float]], class_: str) -> Markup:
    return tag("polyline", points=" ".join(f"{_n(x)},{_n(y)}" for x, y in spots), class_=class_)


def _n(value: float) -> str:
    return f"{value:.1f}"


def _scale(low: float, high: float) -> tuple[float, float, list[float]]:
    """Ends and about four round ticks for a range; a flat one gets room above and below."""
    if high - low < 1e-12 * max(1.0, abs(high)):
        room = abs(high) * 0.5 or 1.0
        low, high = low - room, high + room
    rough = (high - low) / 3
    power = 10 ** math.floor(math.log10(rough))
    width = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    first, last = math.floor(low / width), math.ceil(high / width)
    return first * width, last * width, [at * width for at in range(first, last + 1)]


def _steps(first: float, last: float) -> list[float]:
    """Round steps for the x axis, at most six."""
    rough = max(1.0, (last - first) / 5)
    power = 10 ** math.floor(math.log10(rough))
    width = max(1, next(m * power for m in (1, 2, 5, 10) if m * power >= rough))
    return [at * width for at in range(math.ceil(first / width), math.floor(last / width) + 1)]


def _thin(points: Sequence[Point]) -> list[Point]:
    """At most about `MOST` points: of each stretch the lowest and the highest, in order, and every gap."""
    if len(points) <= MOST:
        return list(points)
    stretch = math.ceil(2 * len(points) / MOST)
    kept: list[Point] = []
    for at in range(0, len(points), stretch):
        piece = points[at : at + stretch]
        solid = [p for p in piece if p[1] is not None]
        if len(solid) < len(piece):
            kept.append(next(p for p in piece if p[1] is None))
        if solid:
            ends = {min(solid, key=lambda p: p[1] or 0.0), max(solid, key=lambda p: p[1] or 0.0)}
            kept.extend(sorted(ends, key=lambda p: p[0]))
    return sorted(kept, key=lambda p: p[0])


def _runs(points: Sequence[Point]) -> list[list[tuple[float, float]]]:
    """Stretches without a gap."""
    found: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if y is None or not math.isfinite(y):
            found.append([])
        else:
            found[-1].append((x, y))
    return [run for run in found if run]
