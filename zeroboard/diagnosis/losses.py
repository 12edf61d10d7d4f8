"""Losses, gradients and skipped steps of a run that goes on, step by step → findings.

Covered: a loss of exactly 0.0 and one that is no number, gradients of exactly 0, steps that 16 bit skips. Not covered:
a loss that rises or is merely bad; whether that is wrong depends on the data.
"""

from __future__ import annotations

from collections.abc import Iterable

from zeroboard.contract.events import StepEvent
from zeroboard.contract.findings import Evidence, Finding
from zeroboard.contract.plan import Resolved
from zeroboard.contract.spec import RunSpec
from zeroboard.diagnosis.course import OVERFLOWS, SMALL, ZEROS, Course
from zeroboard.diagnosis.facts import EVENTS
from zeroboard.diagnosis.latch import Latch
from zeroboard.diagnosis.reading import Line
from zeroboard.diagnosis.remedies import remedies

NANS = 3
"""So many losses in a row that are no numbers: a single one is what an overflow looks like."""
STILL = 5
"""So many steps in a row with gradients of exactly 0."""
GOOD = 3
"""So many good steps in a row clear what was found."""

KINDS = ("loss-nan", "loss-zero", "overflow-loop", "no-training-happened.still")
"""The findings of this module (code, or code and variant), the worst first."""
_AFTER = {"loss-nan": NANS, "loss-zero": ZEROS, "overflow-loop": OVERFLOWS, "no-training-happened.still": STILL}


class Losses:
    """The course of one run."""

    def __init__(self, *, spec: RunSpec | None, resolved: Resolved | None) -> None:
        self._spec = spec
        self._fp16 = resolved is not None and resolved.dtype == "fp16"
        self._tells_norm = spec is not None and spec.train.max_grad_norm > 0
        """Without clipping no norm is computed, so its absence says nothing."""
        self._sharded = resolved is not None and resolved.stage != "none"
        self._latches = {kind: Latch(_AFTER[kind] - 1, GOOD - 1) for kind in KINDS}
        self._told: dict[str, Finding] = {}
        self._steps = 0
        self._learning = False
        """A loss was seen that is small enough to round to 0."""
        self._log = Course()
        self._overflows = (0, 0)
        """Lines in the log and steps of events at the last look."""
        self._streak = 0

    def take(self, step: StepEvent) -> None:
        """A step was made."""
        self._steps += 1
        loss, norm = step.loss, step.grad_norm
        self._learning |= loss is not None and 0.0 < loss < SMALL
        zero = loss == 0.0 and not (self._learning and norm is not None)
        skipped = self._fp16 and not self._sharded and self._tells_norm and norm is None and loss is not None
        seen = {"loss-nan": loss is None, "loss-zero": zero, "no-training-happened.still": norm == 0.0 and not zero}
        if not self._sharded:
            seen["overflow-loop"] = skipped
        for kind, holds in seen.items():
            self._see(kind, holds, f"step {step.step}: loss {'nan' if loss is None else loss}, grad_norm {norm}")

    def overhear(self, lines: Iterable[str]) -> None:
        """New lines of a rank's log: DeepSpeed says there, and nowhere else, which steps it skipped."""
        if not (self._fp16 and self._sharded):
            return
        last = ""
        for text in lines:
            if "OVERFLOW" in text:
                self._log.feed(Line(EVENTS, 0, 0, text, False), 0)
                last = text
        skipped, steps = self._log.overflows - self._overflows[0], self._steps - self._overflows[1]
        self._overflows = (self._log.overflows, self._steps)
        if skipped:
            self._streak = self._streak + skipped if 2 * skipped >= steps else skipped
        elif steps:
            self._streak = 0
        gone = self._log.scale_gone and self._streak > 0
        latch = self._latches["overflow-loop"]
        latch.on = gone or self._streak >= OVERFLOWS or (latch.on and self._streak > 0)
        self._tell("overflow-loop", last.strip())

    def findings(self) -> list[Finding]:
        """What is so now, the worst first."""
        return [self._told[kind] for kind in KINDS if self._latches[kind].on]

    def _see(self, kind: str, holds: bool, text: str) -> None:
        self._latches[kind].see(holds, self._steps)
        self._tell(kind, text)

    def _tell(self, kind: str, text: str) -> None:
        """The finding as it was when it began."""
        if not self._latches[kind].on:
            self._told.pop(kind, None)
        elif kind not in self._told:
            self._told[kind] = Finding(
                code=kind.partition(".")[0],
                evidence=Evidence(file=EVENTS, line=None, text=text),
                says=f"finding.{kind}",
                params={"count": _AFTER[kind], "text": text},
                remedies=remedies(kind, self._spec),
            )
