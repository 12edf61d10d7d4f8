"""Line charts as inline SVG: one size whatever the data, axes that only grow, numbers in words too.

Covered: gaps (a value that was NaN or infinite leaves one, and a mark on the axis), more points than pixels. Not
covered: reading single values off with the mouse; the table of the values is `events.jsonl`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from zeroboard.ui.views.markup import join, tag

WIDTH, HEIGHT = 420, 164
LEFT, RIGHT, TOP, BOTTOM = 46, 8, 10, 20
MOST = 400
"""Points of a line that are drawn; more are thinned so that peaks stay."""
ROOM = 0.25
"""Share of the first value that the axis leaves above and below it, so that the next ones do not move it."""
FEW = 40
"""Up to so many points of a line are drawn as dots as well."""

Point = tuple[float, float | None]
"""(x, y); y None is a gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a chart."""

    points: Sequence[Point]
    kind: str = "line"
    """Its class in the stylesheet: `line`, `raw` (light), `dots` (points without a line), `other` (dashed)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """What holds the axes where they are."""

    x_label: str
    """What lies on it; it stands below the picture, beside the legend."""
    x_end: float | None = None
    """The right end from the beginning on; it moves only for points beyond it."""
    x_widths: Sequence[int] = ()
    """Distances of two ticks to choose from; none: 1, 2, 5, 10, …"""
    format_x: Callable[[float], str] = lambda x: f"{x:,.0f}"
    format_y: Callable[[float], str] = lambda y: f"{y:.3g}"
    y_from: float | None = None
    y_to: float | None = None
    """Ends that the axis reaches at least."""


def line_chart(lines: Sequence[Line], axes: Axes, *, title: str, words: str, empty: str) -> Markup:
    """The chart. `title` and `words` are what is read aloud; `empty` stands there before the first point."""
    solid = [p for line in lines for p in line.points if _solid(p[1])]
    drawn = _drawn(lines, axes) if solid else _nothing(empty)
    base = HEIGHT - BOTTOM
    return tag(
        "svg",
        tag("title", title),
        tag("desc", words),
        drawn,
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=base, y2=base, class_="axis"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{title}. {words}",
        class_="zb-chart",
    )


def _nothing(words: str) -> Markup:
    return tag("text", words, x=WIDTH / 2, y=HEIGHT / 2, text_anchor="middle", class_="nothing")


def _drawn(lines: Sequence[Line], axes: Axes) -> Markup:
    thinned = [Line(points=thin(line.points), kind=line.kind) for line in lines]
    low, high, ticks = y_axis([y for line in thinned for _, y in line.points], axes.y_from, axes.y_to)
    xs = [x for line in thinned for x, _ in line.points]
    first = min(0.0, *xs)
    last = max(axes.x_end or 0.0, first + 1, *xs)
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + wide * (x - first) / (last - first), TOP + tall * (1 - (y - low) / (high - low))

    inside: list[Markup] = []
    for tick in ticks:
        _, y = at(first, tick)
        inside.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=_n(y), y2=_n(y), class_="grid"))
        inside.append(tag("text", axes.format_y(tick), x=LEFT - 6, y=_n(y + 3.5), text_anchor="end"))
    for step in x_ticks(first, last, axes.x_widths):
        x, _ = at(step, low)
        anchor = "start" if step == first else "middle"
        inside.append(tag("text", axes.format_x(step), x=_n(x), y=HEIGHT - BOTTOM + 14, text_anchor=anchor))
    inside.extend(_line(line, at) for line in thinned)
    inside.extend(_gap_marks(thinned, lambda x: at(x, low)))
    return join(inside)


def _line(line: Line, at: Callable[[float, float], tuple[float, float]]) -> Markup:
    runs = [[at(x, y) for x, y in run] for run in _runs(line.points)]
    pieces: list[Markup] = []
    if line.kind == "dots":
        return join(tag("circle", cx=_n(x), cy=_n(y), r="3.5", class_="point") for run in runs for x, y in run)
    pieces.extend(_polyline(run, line.kind) for run in runs)
    if line.kind != "line" or not runs:
        return join(pieces)
    if len(line.points) <= FEW:
        pieces.extend(tag("circle", cx=_n(x), cy=_n(y), r="1.8", class_="dot") for run in runs for x, y in run)
    x, y = runs[-1][-1]
    pieces.append(tag("circle", cx=_n(x), cy=_n(y), r="3.5", class_="now"))
    return join(pieces)


def _gap_marks(lines: Sequence[Line], at: Callable[[float], tuple[float, float]]) -> list[Markup]:
    """A cross on the axis wherever the first line has no value; crosses that would overlap are one."""
    places = sorted({round(at(x)[0] / 6) * 6 for x, y in lines[0].points if not _solid(y)})
    y = HEIGHT - BOTTOM
    return [tag("path", d=f"M{x - 3} {y - 3}l6 6m0 -6l-6 6", class_="gap") for x in places]


def y_axis(
    values: Sequence[float | None], y_from: float | None = None, y_to: float | None = None
) -> tuple[float, float, list[float]]:
    """Ends and about four round ticks. The range follows from the first, the lowest and the highest value alone.

    So it can only grow while values come, and by a whole tick at a time. At least one value must be a number.
    """
    solid = [value for value in values if value is not None and math.isfinite(value)]
    room = ROOM * abs(solid[0])
    low = min(solid) if y_from is not None else min(*solid, solid[0] - room)
    high = max(solid) if y_to is not None else max(*solid, solid[0] + room)
    low = min(low, y_from) if y_from is not None else low if min(solid) < 0 else max(low, 0.0)
    high = max(high, y_to) if y_to is not None else high
    if high - low < 1e-12 * max(1.0, abs(high)):
        low, high = (low - 1.0, high + 1.0) if low < 0 else (low, high + 1.0)
    rough = (high - low) / 3
    power = 10 ** math.floor(math.log10(rough))
    width = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / width + 1e-9), math.ceil(high / width - 1e-9)
    return first * width, last * width, [at * width for at in range(first, last + 1)]


def x_ticks(first: float, last: float, widths: Sequence[int] = (), most: int = 5) -> list[float]:
    """Round whole numbers for the x axis, at most `most` + 1, `widths` being the distances to choose from."""
    rough = max(1.0, (last - first) / most)
    power = 10 ** math.floor(math.log10(rough))
    usual = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    width = max(1, next((known for known in widths if known >= rough), usual))
    return [at * width for at in range(math.ceil(first / width), math.floor(last / width) + 1)]


def sparkline(points: Sequence[Point], *, span: float, end: float, top: float) -> Markup:
    """A small line without axes: the last `span` of x up to `end`, y from 0 to `top`. Said in words beside it."""
    spots: list[list[tuple[float, float]]] = [[]]
    for x, y in thin([p for p in points if p[0] >= end - span], 120):
        if y is None or not math.isfinite(y):
            spots.append([])
            continue
        spots[-1].append((100 * (1 - (end - x) / span), 23 - 22 * min(max(y / top, 0.0), 1.0) if top else 23.0))
    return tag(
        "svg",
        *(_polyline(run if len(run) > 1 else [*run, (run[0][0] + 1, run[0][1])], "line") for run in spots if run),
        viewBox="0 0 100 24",
        preserveAspectRatio="none",
        aria_hidden="true",
        class_="zb-spark",
    )


def thin(points: Sequence[Point], most: int = MOST) -> list[Point]:
    """At most `most` points: of each stretch the lowest and the highest, in order, and a gap where there was one."""
    if len(points) <= most:
        return list(points)
    stretch = math.ceil(3 * len(points) / (most - 8))
    kept: list[Point] = [points[0]]
    for at in range(1, len(points) - 1, stretch):
        piece = points[at : min(at + stretch, len(points) - 1)]
        solid = [p for p in piece if _solid(p[1])]
        chosen = {min(solid, key=_height), max(solid, key=_height)} if solid else set()
        if len(solid) < len(piece):
            chosen.add(next(p for p in piece if not _solid(p[1])))
        kept.extend(sorted(chosen, key=lambda p: p[0]))
    return [*kept, points[-1]]


def _height(point: Point) -> float:
    return point[1] or 0.0


def _solid(y: float | None) -> bool:
    return y is not None and math.isfinite(y)


def _runs(points: Sequence[Point]) -> list[list[tuple[float, float]]]:
    """Stretches without a gap."""
    found: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if y is None or not math.isfinite(y):
            found.append([])
        else:
            found[-1].append((x, y))
    return [run for run in found if run]


def _polyline(spots: Sequence[tuple[float, float]], class_: str) -> Markup:
    return tag("polyline", points=" ".join(f"{_n(x)},{_n(y)}" for x, y in spots), class_=class_)


def _n(value: float) -> str:
    return f"{value:.1f}"
