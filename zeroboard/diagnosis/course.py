"""The course of a training in its log: losses, skipped steps, how far it came, whether it ended."""

from __future__ import annotations

import math
import re
from datetime import datetime

from zeroboard.diagnosis.reading import Line

ZEROS = 3
"""So many losses of exactly 0.0 in a row are no chance."""
SMALL = 0.05
"""A loss below this may well round to 0.0: the data is known by heart."""
OVERFLOWS = 20
"""So many skipped steps in a row are no search for a loss scale."""

HEAD = 90
"""Characters at the beginning of a line in which its time is looked for."""

_NUMBER = r"['\"]?\s*[:=]\s*['\"]?(?P<value>-?\d+(?:\.\d*)?(?:e[-+]?\d{1,3})?|-?nan|-?inf(?:inity)?)\b"
_LOSS = re.compile(r"(?<![\w.])(?:train/|train_|lm )?loss" + _NUMBER, re.IGNORECASE)
_NORM = re.compile(r"(?<![\w.])(?:grad_norm|grad norm|train/grad_norm)" + _NUMBER, re.IGNORECASE)
_STEPWISE = re.compile(r"learning_rate|grad_norm|grad norm|\bepoch\b|\bstep\b|\biteration\b|\blr\b", re.IGNORECASE)
_SUMMARY = re.compile(r"train_runtime|eval_|\bval(?:id|idation)?[_ /]|\btest[_ /]", re.IGNORECASE)
_LOGGED = re.compile(r"\s*\{|\[?\d|.{0,60}?\b(?:step|epoch|iter(?:ation)?)\b", re.IGNORECASE)
_PROGRESS = re.compile(r"\s*\d{1,3}%\|[^|]*\|\s*(\d+)/(\d+) \[")
"""A bar without a name is the trainer's."""
_STEPS = re.compile(r".*Total optimization steps = ([\d,]+)")
_SCALE = re.compile(r".*reducing to (\d{1,20}(?:\.\d{1,9})?)")
_SKIPPING = re.compile(r".*OVERFLOW! Rank (\d+)")
_ENDED = re.compile(
    r".*(train_runtime['\"]?\s*:|Training completed\. Do not forget|>> Training completed"
    r"|destroy_process_group\(\) was not called before program exit)"
)
_LAUNCHED = re.compile(
    r".*(Setting OMP_NUM_THREADS environment variable for each process|deepspeed\.launcher\.launch"
    r"|\*\*\*\*\* Running training"
    r"|Initializing TorchBackend in DeepSpeed|spawned with command)"
)
WORDS = ("loss", "OVERFLOW", "Total optimization", "train_runtime", "Training completed", "destroy_process_group",
         "OMP_NUM_THREADS", "deepspeed.launcher", "Running training", "TorchBackend", "spawned with")  # fmt: skip
"""One of these is in every line (but bars) that this module reads."""

_STAMP = re.compile(
    r".{0,60}?(?:(?P<y>\d{4})-(?P<mo>\d\d)-(?P<d>\d\d)[ T_](?P<t>\d\d:\d\d:\d\d)"
    r"|(?P<mo2>\d\d)/(?P<d2>\d\d)/(?P<y2>\d{4}) (?P<t2>\d\d:\d\d:\d\d)"
    r"|(?<!\w)[IWEF](?P<mo3>\d\d)(?P<d3>\d\d) (?P<t3>\d\d:\d\d:\d\d))(?:[.,](?P<f>\d{1,9}))?"
)


class Course:
    """What one file tells."""

    def __init__(self) -> None:
        self.steps = 0
        """How often something was said that only a step that was made can say."""
        self.at: int | None = None
        self.of: int | None = None
        """The trainer's bar: step, steps."""
        self.planned: int | None = None
        self.launched: Line | None = None
        self.ended: Line | None = None
        self.ended_order = -1
        self.last: Line | None = None
        self.nan: tuple[Line, int] | None = None
        """First line and count of losses that are no numbers and stay so."""
        self.zero: tuple[Line, int] | None = None
        self.overflow: tuple[Line, int] | None = None
        """First line and count of skipped steps without a good one in between; the longest such streak."""
        self.overflows = 0
        self.scale_gone = False
        self._streak: tuple[Line, int] | None = None
        self._skipper: str | None = None
        self._learning = False
        """A loss was seen that is small enough to round to 0."""
        self._stamp = ""
        self._year: int | None = None

    @property
    def overflow_loop(self) -> bool:
        """Skipped steps are not the search for a loss scale any more."""
        if self.overflow is None:
            return False
        steps = self.planned or self.of or 0
        whole = self.overflows >= 5 and steps > 0 and 2 * self.overflows >= steps
        return self.scale_gone or whole or self.overflow[1] >= OVERFLOWS

    def feed(self, line: Line, order: int) -> bool:
        """Take a bar, or a line that holds one of `WORDS`; returns whether it was about the course."""
        text = line.text
        if line.bar:
            if found := _PROGRESS.match(text):
                at = int(found.group(1))
                self.steps += at > (self.at or 0)
                self.at, self.of = at, int(found.group(2))
            return True
        if "OVERFLOW" in text:
            self._overflow(line)
            return True
        if "loss" in text and not _SUMMARY.search(text) and _LOGGED.match(text) and self._loss(line):
            return True
        if found := _STEPS.match(text):
            self.planned = int(found.group(1).replace(",", ""))
            return True
        if _ENDED.match(text):
            self.ended, self.ended_order = line, order
            return True
        if self.launched is None and _LAUNCHED.match(text):
            self.launched = line
            return True
        return False

    def hear(self, text: str) -> None:
        """Keep the time that a line begins with, if it does."""
        if text and text[0] in "[0123456789EWIF" and (found := _STAMP.match(text[:HEAD])):
            self._stamp = text[:HEAD]
            year = found["y"] or found["y2"]
            self._year = int(year) if year else self._year

    def stamp(self) -> float | None:
        """The time that was heard last, in seconds since the epoch (taken as local time)."""
        return when(self._stamp, self._year)

    def loss(self, line: Line, value: float, *, good_norm: bool | None) -> None:
        """A training loss; `good_norm`: the norm of the gradients is a finite number (None: not told)."""
        self.steps += 1
        if good_norm is True:
            self._streak = None
        if not math.isfinite(value):
            self.nan = (self.nan[0] if self.nan else line, self.nan[1] + 1 if self.nan else 1)
        else:
            self.nan = None
        if value == 0.0 and not (self._learning and good_norm is not False):
            self.zero = (self.zero[0] if self.zero else line, self.zero[1] + 1 if self.zero else 1)
        elif value != 0.0 and (self.zero is None or self.zero[1] < ZEROS):
            self.zero = None
        if 0.0 < value < SMALL:
            self._learning = True

    def _loss(self, line: Line) -> bool:
        text = line.text
        found = _LOSS.search(text)
        if found is None or not _STEPWISE.search(text):
            return False
        norm = _NORM.search(text)
        self.loss(line, float(found["value"]), good_norm=math.isfinite(float(norm["value"])) if norm else None)
        return True

    def _overflow(self, line: Line) -> None:
        if by := _SKIPPING.match(line.text):
            self._skipper = self._skipper or by.group(1)
            if by.group(1) != self._skipper:
                return  # every rank says so; one of them is counted
        self.overflows += 1
        self._streak = (line, 1) if self._streak is None else (self._streak[0], self._streak[1] + 1)
        if self.overflow is None or self._streak[1] > self.overflow[1]:
            self.overflow = self._streak
        found = _SCALE.match(line.text)
        self.scale_gone |= found is not None and float(found.group(1)) <= 1.0


def when(text: str, year: int | None = None) -> float | None:
    """The time that a line begins with, in seconds since the epoch (taken as local time); None where there is none.

    `year`: where the line tells none, as those of glog; else it is this year.
    """
    found = _STAMP.match(text[:HEAD])
    if found is None:
        return None
    part = found.groupdict()
    clock = part["t"] or part["t2"] or part["t3"]
    year = int(part["y"] or part["y2"] or year or datetime.now().year)
    month, day = int(part["mo"] or part["mo2"] or part["mo3"]), int(part["d"] or part["d2"] or part["d3"])
    hour, minute, second = (int(n) for n in clock.split(":"))
    fraction = float(f"0.{part['f']}") if part["f"] else 0.0
    try:
        return datetime(year, month, day, hour, minute, second).timestamp() + fraction
    except ValueError:
        return None
