"""What a run measured at each step, thinned while it is read: 200,000 steps cost what some hundred cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

from zeroboard.contract.events import EvalEvent, StepEvent

MOST = 300
"""Points that a series keeps; more are thinned."""
SPAN = 50
"""The smoothed loss looks back over a fiftieth of the planned steps, and over `LEAST` points at least."""
LEAST = 5

Point = tuple[int, float | None]
"""(optimizer step, value); None: it was NaN or infinite, or was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The curves of a run, each a tuple of points in the order of their steps, at most about `MOST` of them.

    The first and the last point are always there, and so are each stretch's lowest, highest and missing one.
    """

    loss: tuple[Point, ...] = ()
    smoothed: tuple[Point, ...] = ()
    """The loss as an exponential mean over every point, also those that were thinned away."""
    evaluation: tuple[Point, ...] = ()
    """Loss on the evaluation split."""
    learning_rate: tuple[Point, ...] = ()
    grad_norm: tuple[Point, ...] = ()
    tokens_per_s: tuple[Point, ...] = ()
    """Through all ranks, padding not counted."""
    samples_per_s: tuple[Point, ...] = ()
    mfu: tuple[Point, ...] = ()
    """Model FLOPs utilisation, 0 to 1; see `runs.mfu`. Empty where it is not known."""


class _Bucket:
    """A stretch of points, of which the lowest, the highest and the first gap are kept."""

    __slots__ = ("count", "gap", "high", "low", "size")

    def __init__(self) -> None:
        self.low: tuple[int, float] | None = None
        self.high: tuple[int, float] | None = None
        self.gap: Point | None = None
        self.count = 0
        """Points that came."""
        self.size = 0
        """Points that are kept."""

    def add(self, point: Point) -> int:
        """How many points more are kept than before."""
        self.count += 1
        value, before = point[1], self.size
        if value is None:
            if self.gap is None:
                self.gap = point
                self.size += 1
        elif self.low is None or self.high is None:
            self.low = self.high = (point[0], value)
            self.size += 1
        elif value < self.low[1]:
            self.size += self.low is self.high
            self.low = (point[0], value)
        elif value > self.high[1]:
            self.size += self.low is self.high
            self.high = (point[0], value)
        return self.size - before

    def points(self) -> list[Point]:
        low, high, gap = self.low, self.high, self.gap
        if low is None or high is None:
            return [gap] if gap is not None else []
        kept: list[Point] = [low] if low is high else [low, high] if low[0] < high[0] else [high, low]
        return kept if gap is None else sorted([*kept, gap], key=lambda point: point[0])


class Thinned:
    """Points in buckets of equally many, which grow as more come; of each the lowest, the highest, and a gap stay."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._buckets: list[_Bucket] = []
        self._width = 1
        self._held = 0
        self._first: Point | None = None
        self._last: Point | None = None

    def add(self, step: int, value: float | None) -> None:
        """One more point; points of this step and later ones are of an earlier attempt, and go."""
        if self._last is not None and step <= self._last[0]:
            self._drop(step)
        point = (step, value if value is not None and math.isfinite(value) else None)
        self._last = point
        if self._first is None:
            self._first = point
        if not self._buckets or self._buckets[-1].count >= self._width:
            self._buckets.append(_Bucket())
        self._held += self._buckets[-1].add(point)
        while self._held > self._most:
            self._width *= 2
            self._rebuild([bucket.points() for bucket in self._buckets], pair=True)

    def points(self) -> tuple[Point, ...]:
        """What is kept, in order, the first and the last point with it."""
        kept = [point for bucket in self._buckets for point in bucket.points()]
        if self._first is not None and kept[0] != self._first:
            kept.insert(0, self._first)
        if self._last is not None and kept[-1] != self._last:
            kept.append(self._last)
        return tuple(kept)

    def _rebuild(self, kept: list[list[Point]], *, pair: bool = False) -> None:
        """Buckets anew from what they kept; `pair` puts every two of them into one."""
        counts = [bucket.count for bucket in self._buckets]
        wide = 2 if pair else 1
        self._buckets = []
        for at in range(0, len(kept), wide):
            bucket = _Bucket()
            for points in kept[at : at + wide]:
                for point in points:
                    bucket.add(point)
            bucket.count = sum(counts[at : at + wide])
            self._buckets.append(bucket)
        self._held = sum(bucket.size for bucket in self._buckets)

    def _drop(self, step: int) -> None:
        """Forget this step and those after it."""
        kept = [[point for point in bucket.points() if point[0] < step] for bucket in self._buckets]
        while kept and not kept[-1]:
            kept.pop()
        self._rebuild(kept)
        if self._first is not None and self._first[0] >= step:
            self._first = None
        self._last = kept[-1][-1] if kept else self._first


class Smoothing:
    """An exponential mean, freed of the weight of its first value; a gap leaves it as it was.

    (Kingma and Ba, arXiv 1412.6980, section 3, correct their moments in the same way.)
    """

    def __init__(self) -> None:
        self._mean = 0.0
        self._share = 0.0
        self._step: int | None = None

    def add(self, step: int, value: float | None, planned: int | None) -> float | None:
        """The mean with this value in it; None where the value is missing. `planned`: steps of the whole run."""
        apart = max(1, step - self._step) if self._step is not None else 1
        self._step = step
        if value is None or not math.isfinite(value):
            return None
        span = max(LEAST * apart, (planned or 0) / SPAN)
        weight = (1 - 1 / span) ** apart
        self._mean = weight * self._mean + (1 - weight) * value
        self._share = weight * self._share + 1 - weight
        return self._mean / self._share


MEASURED: dict[str, Callable[[StepEvent], float | None]] = {
    "loss": lambda step: step.loss,
    "learning_rate": lambda step: step.learning_rate,
    "grad_norm": lambda step: step.grad_norm,
    "tokens_per_s": lambda step: step.tokens_per_s,
    "samples_per_s": lambda step: step.samples_per_s,
}
"""Curves that are read off a step."""
FINE = {"smoothed": MOST // 2}
"""Points of the curves that are smooth: half as many draw them."""
ALWAYS = ("loss", "learning_rate")
"""Of them, those in which None is a point: it was NaN. In others it means, until one comes, that none is measured."""


class Curves:
    """Gathers the series of a run, point by point."""

    def __init__(self) -> None:
        self._thinned = {field.name: Thinned(FINE.get(field.name, MOST)) for field in fields(Series)}
        self._begun = set(ALWAYS)
        self._smoothing = Smoothing()
        self._made: tuple[float | None, Series] | None = None

    def step(self, event: StepEvent, planned: int | None) -> None:
        """`planned`: steps of the whole run, where they are known."""
        for name, read in MEASURED.items():
            value = read(event)
            if value is not None:
                self._begun.add(name)
            if name in self._begun:
                self._thinned[name].add(event.step, value)
        self._thinned["smoothed"].add(event.step, self._smoothing.add(event.step, event.loss, planned))
        self._made = None

    def evaluated(self, event: EvalEvent) -> None:
        self._thinned["evaluation"].add(event.step, event.loss)
        self._made = None

    def series(self, mfu_of_token: float | None) -> Series:
        """The curves; the same object until another point comes. `mfu_of_token`: utilisation for a token a second."""
        if self._made is None or self._made[0] != mfu_of_token:
            curves = {name: thinned.points() for name, thinned in self._thinned.items() if name != "mfu"}
            mfu = tuple(_scaled(curves["tokens_per_s"], mfu_of_token)) if mfu_of_token is not None else ()
            self._made = (mfu_of_token, Series(**curves, mfu=mfu))
        return self._made[1]


def _scaled(points: tuple[Point, ...], factor: float) -> Iterator[Point]:
    for step, value in points:
        yield step, value * factor if value is not None else None
