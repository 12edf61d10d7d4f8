"""Why did it fail: a log from anywhere, or a run of ours."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from zeroboard.contract.events import EVENT, FindingEvent
from zeroboard.contract.findings import Diagnosis, Finding
from zeroboard.contract.spec import RunSpec
from zeroboard.contract.state import LIVE
from zeroboard.diagnosis.diagnose import diagnose as judge
from zeroboard.diagnosis.facts import RunFacts
from zeroboard.diagnosis.reading import logs
from zeroboard.errors import NotFound, UsageError
from zeroboard.files import open_regular
from zeroboard.messages import Language, say
from zeroboard.paths import RUN_ID, Paths, RunPaths, reachable
from zeroboard.planning.specs import read_spec
from zeroboard.runs import registry
from zeroboard.runs.follow import each_step
from zeroboard.runs.snapshot import Snapshot, SnapshotReader

GLANCE = 8 << 20
"""Bytes of all logs together that a look at a run may cost."""
LATEST = 64
"""Readings before the end of a run that may help to explain it."""
FINDING = b'"kind":"finding"'
"""In every line of the events that holds one; looked for before the line is read, for there are many lines."""
LEAST = 1 << 16
"""Bytes of each log that it looks at in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosed:
    """What was judged, and what was found."""

    path: Path
    diagnosis: Diagnosis
    empty: bool = False
    """The log holds nothing at all."""


def diagnose(paths: Paths, word: str) -> Diagnosed:
    """Judge a log file, a folder of logs, or a run (its folder, its id, the beginning of one, `last`), all of it.

    Raises `NotFound` where there is nothing of that name or no log in the folder, `UsageError` where one is unreadable.
    """
    place = reachable(word)
    if place is None:
        if not RUN_ID.fullmatch(word):
            raise NotFound("error.path-not-found", path=word)
        place = registry.find(paths, word).folder
    run = RunPaths(place.absolute())
    if run.state.is_file():
        return Diagnosed(path=place, diagnosis=of_run(run, SnapshotReader(run).read()))
    found = logs(place)
    if not found:
        raise NotFound("error.no-logs", path=str(place))
    try:
        diagnosis = judge(place, now=time.time())
    except OSError as error:
        raise UsageError("error.log-unreadable", path=str(place), why=error.strerror or str(error)) from error
    if diagnosis is None and place.is_dir():
        raise NotFound("error.empty-logs", path=str(place))
    return Diagnosed(path=place, diagnosis=diagnosis or Diagnosis(root=None), empty=diagnosis is None)


def of_run(run: RunPaths, snapshot: Snapshot, *, glance: bool = False) -> Diagnosis:
    """Why a run failed: its events and exit codes first, explained by its logs. `glance`: only the end of each log."""
    spec = asked(run)
    resolved = snapshot.plan.resolved if snapshot.plan is not None else None
    step = [snapshot.last] if snapshot.last is not None else []
    heard = [event.time for event in (*step, *snapshot.ranks[-1:], *snapshot.saves[-1:])]
    facts = RunFacts(
        state=snapshot.state,
        errors=snapshot.errors,
        steps=tuple(each_step(run)),
        last_event=max(heard, default=None),
        spec=spec,
        gpus=resolved.gpus if resolved is not None else (),
        noticed=noticed(run),
        readings=snapshot.history[-LATEST:],
    )
    found = logs(run.folder)
    problem = snapshot.state.problem
    skip = ["supervisor.log"] if problem is None or problem.says != "run.failed.supervisor" else []
    if problem is None or problem.says != "run.failed.verb":
        skip.append("verbs.log")
    last = max(LEAST, GLANCE // max(1, len(found))) if glance else None
    diagnosis = judge(run.folder, now=time.time(), facts=facts, skip=skip, last=last)
    return _with(snapshot, diagnosis or Diagnosis(root=None))


def _with(snapshot: Snapshot, found: Diagnosis) -> Diagnosis:
    """While a run goes on, what is wrong with it stands before what its logs say, and those before mere hints."""
    if snapshot.state.state not in LIVE or not snapshot.findings:
        return found
    known = {finding.code for finding in snapshot.findings}
    bad = [finding for finding in snapshot.findings if finding.code == "stalled" or finding.severity == "error"]
    hints = [finding for finding in snapshot.findings if finding not in bad]
    told = [finding for finding in found.findings if finding.code not in known]
    return Diagnosis(root=bad[0].code if bad else found.root, findings=(*bad, *told, *hints))


def noticed(run: RunPaths) -> tuple[Finding, ...]:
    """What was noticed while a run went on, with its last words, in the order of its first; over or not."""
    found: dict[tuple[str, int | None], Finding] = {}
    try:
        with open_regular(run.events) as stream:
            lines = [line for line in stream if FINDING in line]
    except FileNotFoundError:
        return ()
    for line in lines:
        try:
            event = EVENT.validate_json(line)
        except ValidationError:  # half a line, or one of another version
            continue
        if isinstance(event, FindingEvent):
            found[event.finding.code, event.finding.rank] = event.finding
    return tuple(found.values())


def of_any(run: RunPaths, snapshot: Snapshot, *, glance: bool = True) -> Diagnosis:
    """What there is to say of a run: why it failed, or else what is noticed while it goes on."""
    if snapshot.state.state in ("failed", "lost"):
        return of_run(run, snapshot, glance=glance)
    return Diagnosis(root=None, findings=snapshot.findings)


def said(value: Diagnosis, language: Language = "en") -> dict[str, Any]:
    """The JSON of `zeroboard diagnose`."""
    return {"root": value.root, "findings": [finding(f, language) for f in value.findings]}


def finding(value: Finding, language: Language = "en") -> dict[str, Any]:
    """A finding in the words of a language."""
    return {
        "code": value.code,
        "severity": value.severity,
        "rank": value.rank,
        "evidence": value.evidence.model_dump(mode="json") if value.evidence is not None else None,
        "message": say(value.says, language, **value.params),
        "remedies": [{"text": say(r.says, language, **r.params), "set": r.set} for r in value.remedies],
        "echoes": value.echoes,
    }


def asked(run: RunPaths) -> RunSpec | None:
    """What was asked; None where the file is gone or is no spec any more."""
    try:
        spec, _ = read_spec(run.spec)
    except NotFound:
        return None
    return spec
