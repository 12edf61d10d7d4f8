"""What a look of the live page costs with a long run behind it, against a run that has just begun.

    python -m tests.benchmarks.tick [EVENTS LINES]      100000 events and 200000 lines unless told

The very handler of the page's timer is called, as one browser would: read model, readings, findings, charts, the end of
a log. Before each look the run goes on: a step, a reading, three lines of log. Counted is this process's own processor
time of the look, the median and the worst of `LOOKS`; what the first look costs, which reads everything, is told apart.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.ui.scripted import move, planned, running, say
from zeroboard.contract.events import StepEvent
from zeroboard.contract.readings import GpuReading, Reading
from zeroboard.files import append_line
from zeroboard.paths import Paths, RunPaths
from zeroboard.ui import dashboard
from zeroboard.ui.shared import Shared

EVENTS, LINES = 100_000, 200_000
FEW = 100
LOOKS = 60
RATIO = 1.5
"""How much more the long run may cost."""
MOST = 0.020
"""Seconds of processor time that a look may cost."""


class Course:
    """A run that goes on as it is told to, with so much behind it."""

    def __init__(self, folder: Path, events: int, lines: int) -> None:
        self.run: RunPaths = planned(Paths(folder))
        self.planned = events * 2
        self.begun = time.time() + 60  # after what the scripted run has already told
        self._noise = random.Random(3)
        running(self.run, 1)
        self.step = 1
        with self.run.events.open("a", encoding="utf-8") as told:
            told.writelines(self.event().model_dump_json() + "\n" for _ in range(events - 1))
        with self.run.readings.open("a", encoding="utf-8") as told:
            told.writelines(self.reading(self.begun + at).model_dump_json() + "\n" for at in range(events))
        with self.run.rank_log(0).open("a", encoding="utf-8") as log:
            log.writelines(self.line(at) for at in range(lines))
        move(self.run, "running", step=self.step, steps=self.planned)

    def event(self) -> StepEvent:
        self.step += 1
        loss = 3 * math.exp(-self.step / self.planned) + self._noise.random()
        return StepEvent(
            seq=self.step, time=self.begun + self.step, rank=0, step=self.step, epoch=self.step / self.planned,
            loss=loss, learning_rate=1e-4 * self._noise.random(), grad_norm=self._noise.random(),
            tokens_per_s=1e4 * self._noise.random(), samples_per_s=9.0 + self._noise.random(), step_time=1.0,
        )  # fmt: skip

    def reading(self, at: float) -> Reading:
        gpus = tuple(
            GpuReading(uuid=f"GPU-{n}", index=n, memory_used=n << 30, memory_total=80 << 30, utilization=90.0)
            for n in range(2)
        )
        return Reading(time=at, gpus=gpus, cpu_percent=100 * self._noise.random())

    def line(self, at: int) -> str:
        return f"2026-11-30 10:00:{at % 60:02d} INFO engine step {at}: loss {self._noise.random():.4f}, and words\n"

    def goes_on(self) -> None:
        """A second of training."""
        say(self.run, self.event())
        append_line(self.run.readings, self.reading(self.begun + self.step).model_dump_json())
        with self.run.rank_log(0).open("a", encoding="utf-8") as log:
            log.writelines(self.line(at) for at in range(3))
        move(self.run, "running", step=self.step, steps=self.planned)


def handler(paths: Paths) -> tuple[Callable[..., list[Any]], int]:
    """The timer's handler of the English page, and which of its results is what the browser has seen."""
    page = dashboard.build(Shared(paths), "en", "")
    found = next(fn for fn in page.fns.values() if fn.api_name == "en_tick")
    assert found.fn is not None
    return found.fn, [component._id for component in found.outputs].index(found.inputs[1]._id)


class Looker:
    """A browser that has the page of such a run open."""

    def __init__(self, folder: Path, events: int, lines: int) -> None:
        self.words = f"{events:,} events, {lines:,} lines"
        self.course = Course(folder, events, lines)
        self._look, self._seen_at = handler(Paths(folder))
        self._seen: Any = {}
        self.spent: list[float] = []
        """Seconds of processor time of each look."""

    def look(self) -> None:
        began = time.process_time()
        told = self._look(self.course.run.id, self._seen, "rank 0", "", "all", True)
        self.spent.append(time.process_time() - began)
        self._seen = told[self._seen_at]
        assert isinstance(self._seen, dict) and "snapshot" in self._seen, told
        self.course.goes_on()

    @property
    def typical(self) -> float:
        return statistics.median(self.spent[1:])


def main(argv: list[str] | None = None) -> int:
    given = [int(word) for word in (sys.argv[1:] if argv is None else argv)]
    events, lines = given or (EVENTS, LINES)
    with tempfile.TemporaryDirectory() as cache:
        few, many = Looker(Path(cache) / "few", FEW, FEW), Looker(Path(cache) / "many", events, lines)
        for _ in range(LOOKS + 1):  # in turns, so that what else the machine does weighs on both
            few.look()
            many.look()
    for looker in (few, many):
        first, worst = looker.spent[0], max(looker.spent[1:])
        told = f"{1000 * looker.typical:6.2f} ms a look (worst {1000 * worst:.2f}), the first {1000 * first:.0f} ms"
        print(f"{looker.words:34} {told}")
    ratio, spent = many.typical / few.typical, many.typical
    print(f"ratio {ratio:.2f} (at most {RATIO}); {1000 * spent:.2f} ms of processor time (at most {1000 * MOST:.0f})")
    return int(ratio > RATIO or spent > MOST)


if __name__ == "__main__":
    sys.exit(main())
