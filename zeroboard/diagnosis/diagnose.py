"""Logs (and a run's own facts) → findings, the root cause first and its echoes folded into it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from zeroboard.contract.findings import Diagnosis, Evidence, Finding
from zeroboard.contract.problems import Scalar
from zeroboard.contract.spec import RunSpec
from zeroboard.diagnosis.cause import chains, first_cause, first_late, is_generic, killed_first
from zeroboard.diagnosis.course import ZEROS
from zeroboard.diagnosis.facts import RunFacts, course_of, of_events
from zeroboard.diagnosis.launcher import Exit, signal_name
from zeroboard.diagnosis.reading import Line, logs
from zeroboard.diagnosis.remedies import remedies
from zeroboard.diagnosis.rules import Rule
from zeroboard.diagnosis.sightings import Shown, Sighting
from zeroboard.diagnosis.witnesses import witnesses

QUOTED = 500
"""Characters of a line that is quoted as evidence."""
TOLD = 200
"""Characters of it within a sentence."""
SILENT = 1800.0
"""Seconds without a word, after which a training that has not ended stands still; as long as torch waits by itself."""
SURELY = 86_400.0
"""Seconds after which that is so even if the file is younger (it was copied), whatever the time zone of the log."""

_PID = re.compile(r"(?:Killed process |pid=)(\d+)")


def diagnose(
    place: Path, *, now: float, facts: RunFacts | None = None, skip: Sequence[str] = (), last: int | None = None
) -> Diagnosis | None:
    """What the log at a place (a file, or a folder with one for each rank) shows; None where nothing is written.

    `now`: seconds since the epoch, to tell a log that stopped. `facts`: what a run's own files say. `skip`: names of
    logs that are not about the training. `last`: look only at about so many bytes at the end of each log. Raises
    `OSError` where a log cannot be read.
    """
    found = [log for log in logs(place) if Path(log.name).name not in skip]
    shown = [Shown(log) for log in found]
    for one in shown:
        one.read(last)
    if not any(one.lines for one in shown) and facts is None:
        return None
    age = min((now - log.path.stat().st_mtime for log in found), default=None)
    return _Case(shown, facts, now, age).judge()


class _Case:
    """Everything that was seen, in one place."""

    def __init__(self, shown: list[Shown], facts: RunFacts | None, now: float, age: float | None) -> None:
        self.shown, self.facts, self.now, self.age = shown, facts, now, age
        self.spec: RunSpec | None = facts.spec if facts is not None else None
        seen = [s for one in shown for s in one.all() if s.rule.role in ("symptom", "noise") or not one.survived(s)]
        if facts is not None and facts.errors:
            spoken = {e.rank for e in facts.errors}
            events = of_events(facts, seen)
            seen = [s for s in seen if not (s.raised and s.rank in spoken)] + events
        self.told = chains(seen)
        self.exits = [
            exit for one in shown for exit in one.launcher.exits
            if one.course.ended is None or exit.order > one.course.ended_order
        ]  # fmt: skip
        self.courses = [one.course for one in shown] + ([course_of(facts)] if facts is not None else [])

    def judge(self) -> Diagnosis:
        root = self._root()
        findings = [] if root is None else [root]
        for finding in self._others(root) + self._symptoms():
            if all(f.code != finding.code for f in findings):
                findings.append(finding)
        if root is not None and self.facts is not None:
            findings += witnesses(root, self.facts)
        if not findings and (silent := self._silent()) is not None:
            findings.append(silent)
        noise = self._noise()
        return Diagnosis(
            root=findings[0].code if findings else None, findings=(*findings, noise) if noise else tuple(findings)
        )

    def _root(self) -> Finding | None:
        state = self.facts.state.state if self.facts is not None else None
        if state == "finished":
            return None
        if self.facts is not None and (problem := self.facts.decided) is not None:
            return self._of_problem(problem.code)
        if state == "stopped":
            return Finding(code="stopped-by-user", severity="info", says="finding.stopped-by-user",
                           remedies=remedies("stopped-by-user", self.spec))  # fmt: skip
        cause = first_cause(self.told, self.exits)
        killed = killed_first(cause, self.told, self.exits)
        if killed is not None:
            return self._of_exit(killed)
        late = None if cause is not None else first_late(self.told, self.exits)
        if cause is None and isinstance(late, Exit):
            return self._of_exit(late)
        began = cause or (late if isinstance(late, Sighting) else None)
        if began is not None:
            return self._of_sighting(began)
        if self.facts is not None and self.facts.state.problem is not None and state in ("failed", "lost"):
            return self._of_problem(self.facts.state.problem.code)
        return self._without_a_cause()

    def _without_a_cause(self) -> Finding | None:
        """Only echoes are there, or nothing but an exit code."""
        echoes = [s for s in self.told if s.rule.role == "echo" and s.raised and not s.aside]
        if echoes:
            first = min(echoes, key=lambda s: s.order)
            if first.text.startswith(("SystemExit: 0", "torch.distributed.elastic")) and len(echoes) > 1:
                first = echoes[1]
            return self._finding("python-exception", first.line, first.rank, variant="echo", text=first.text)
        bad = [exit for exit in self.exits if exit.code not in (0, -15)]
        if bad:
            return self._finding(
                "python-exception", bad[0].line, bad[0].rank, variant="silent", params={"code": bad[0].code}
            )
        return None

    def _of_sighting(self, began: Sighting) -> Finding:
        same = [s for s in self.told if s.rule.code == began.rule.code and s.rank in (began.rank, None)]
        best = began
        if not began.raised:  # of what the machine said, the line that says it best
            best = min((s for s in same if not s.raised), key=lambda s: (s.evidence, s.order), default=began)
        rank = began.rank if began.rank is not None else self._rank_of_pid(best.text)
        params: dict[str, Scalar] = {}
        if began.rule.code == "collective-timeout":
            waiting = sorted({s.rank for s in self.told if s.rule.code == began.rule.code and s.rank is not None})
            params["ranks"] = ", ".join(map(str, waiting)) or "?"
        return self._finding(
            began.rule.code, best.line, rank, variant=began.rule.variant, text=best.text, params=params,
            severity=began.rule.severity, echoes=self._follow(began),
        )  # fmt: skip

    def _of_exit(self, exit: Exit) -> Finding:
        number = exit.signal or 0
        crash = number not in (9, 1, 2, 15)
        return self._finding(
            "killed-by-signal", exit.line, exit.rank, variant="crash" if crash else None,
            params={"signal": signal_name(number)},
        )  # fmt: skip

    def _of_problem(self, code: str) -> Finding:
        assert self.facts is not None and self.facts.state.problem is not None
        problem = self.facts.state.problem
        rank = problem.params.get("rank")
        file, message = problem.params.get("file"), problem.params.get("message")
        return Finding(
            code=code,
            severity=problem.severity,
            rank=rank if isinstance(rank, int) else None,
            evidence=Evidence(file=str(file), line=None, text=str(message or "")[:QUOTED]) if file else None,
            says=problem.message_key,
            params={"field": problem.field, **problem.params},
            remedies=remedies(code, self.spec),
        )

    def _others(self, root: Finding | None) -> list[Finding]:
        """Exceptions of other ranks that a rule knows and that do not follow from the root cause."""
        if root is None or (self.facts is not None and self.facts.decided is not None):
            return []
        began: Rule | None = next((s.rule for s in self.told if s.rule.code == root.code), None)
        follow = began.explains if began is not None else frozenset()
        signs = any(not s.raised and s.rule.code == root.code and s.rule.role == "cause" for s in self.told)
        if signs:
            return []
        found = []
        for s in sorted(self.told, key=lambda s: s.order):
            known = s.raised and s.rule.role == "cause" and not is_generic(s) and not s.aside
            if known and s.rank is not None and s.rank != root.rank and s.rule.code not in {root.code, *follow}:
                found.append(
                    self._finding(s.rule.code, s.line, s.rank, variant=s.rule.variant, text=s.text, severity="warning")
                )
        return found

    def _symptoms(self) -> list[Finding]:
        found: list[Finding] = []
        for course in self.courses:
            if course.overflow is not None and course.overflow_loop:
                found.append(
                    self._finding("overflow-loop", course.overflow[0], None, params={"count": course.overflows})
                )
            if course.zero is not None and course.zero[1] >= ZEROS:
                found.append(self._finding("loss-zero", course.zero[0], None, params={"count": course.zero[1]}))
            elif course.nan is not None:
                found.append(self._finding("loss-nan", course.nan[0], None, params={"count": course.nan[1]}))
        symptoms = sorted((s for s in self.told if s.rule.role == "symptom"), key=lambda s: s.order)
        for s in symptoms:
            count = sum(one.counts.get(s.rule.key, 0) for one in self.shown)
            found.append(
                self._finding(
                    s.rule.code, s.line, s.rank, severity=s.rule.severity, params={"count": count}, text=s.text
                )
            )
        order = ("loss-nan", "loss-zero", "overflow-loop", "no-training-happened", "weights-not-gathered")
        return sorted(found, key=lambda f: order.index(f.code) if f.code in order else len(order))

    def _silent(self) -> Finding | None:
        """It ended at once, or it has not ended although nothing is said any more."""
        if self.facts is not None:
            return self._silent_run(self.facts)
        launched = next((c.launched for c in self.courses if c.launched is not None), None)
        course = max(self.courses, key=lambda c: c.steps, default=None)
        if course is None or (launched is None and course.steps == 0):
            return None
        ended = any(c.ended is not None for c in self.courses)
        left = [exit for one in self.shown for exit in one.launcher.exits]
        line = course.last
        if left and all(exit.code == 0 for exit in left) and course.steps == 0 and not ended:
            return self._finding("no-training-happened", left[-1].line, None, params={"count": 0})
        if ended or left or line is None or (course.at is not None and course.at == course.of):
            return None
        times = [stamp for c in self.courses if (stamp := c.stamp()) is not None]
        quiet = self.now - max(times) if times else self.age
        young = self.age is not None and self.age < SILENT
        if quiet is None or quiet < SILENT or (young and quiet < SURELY):
            return None
        return self._finding("stalled", line, None, severity="warning", params=_since(quiet))

    def _silent_run(self, facts: RunFacts) -> Finding | None:
        if facts.state.state not in ("running", "saving") or facts.last_event is None:
            return None
        quiet = self.now - facts.last_event
        usual = max((step.step_time for step in facts.steps[-20:]), default=0.0)
        if quiet < max(SILENT, 20 * usual):
            return None
        return Finding(code="stalled", severity="warning", says="finding.stalled", params=_since(quiet),
                       remedies=remedies("stalled", self.spec))  # fmt: skip

    def _noise(self) -> Finding | None:
        """One finding for all that only looks bad."""
        noise = sorted((s for s in self.told if s.rule.role == "noise"), key=lambda s: s.order)
        some = next((c.overflow[0] for c in self.courses if c.overflow is not None and not c.overflow_loop), None)
        if not noise and some is None:
            return None
        count = sum(one.counts.get("benign", 0) for one in self.shown) + sum(
            c.overflows for c in self.courses if not c.overflow_loop
        )
        line = noise[0].line if noise else some
        assert line is not None
        return self._finding("benign", line, noise[0].rank if noise else None, severity="info", params={"count": count})

    def _follow(self, began: Sighting) -> int:
        """How many exceptions and bad ends of others follow from it."""
        raised = sum(
            1 for s in self.told
            if s.raised and s is not began and not s.aside and (s.line.file != began.line.file or s.order > began.order)
        )  # fmt: skip
        # the launcher and its report tell the same end
        return raised + len({exit.pid for exit in self.exits if exit.code != 0})

    def _rank_of_pid(self, text: str) -> int | None:
        found = _PID.search(text)
        if found is None:
            return None
        return next((e.rank for e in self.exits if e.pid == int(found.group(1)) and e.rank is not None), None)

    def _finding(
        self,
        code: str,
        line: Line,
        rank: int | None,
        *,
        variant: str | None = None,
        text: str | None = None,
        params: dict[str, Scalar] | None = None,
        severity: str = "error",
        echoes: int = 0,
    ) -> Finding:
        key = code if variant is None else f"{code}.{variant}"
        quoted = (text or line.text).strip()
        return Finding.model_validate(
            {
                "code": code,
                "severity": severity,
                "rank": rank,
                "evidence": Evidence(file=line.file, line=line.number or None, text=quoted[:QUOTED]),
                "says": f"finding.{key}",
                "params": {"text": quoted.split("\n", 1)[0][:TOLD], **(params or {})},
                "remedies": remedies(key, self.spec),
                "echoes": echoes,
            }
        )


def _since(seconds: float) -> dict[str, Scalar]:
    return {"minutes": round(seconds / 60)}
