"""Why did it fail: a log from anywhere, or a run of ours."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zeroboard.contract.findings import Diagnosis, Finding
from zeroboard.contract.spec import RunSpec
from zeroboard.diagnosis.diagnose import diagnose as judge
from zeroboard.diagnosis.facts import RunFacts
from zeroboard.diagnosis.reading import logs
from zeroboard.errors import NotFound, UsageError
from zeroboard.messages import Language, say
from zeroboard.paths import RUN_ID, Paths, RunPaths, reachable
from zeroboard.planning.specs import read_spec
from zeroboard.runs import registry
from zeroboard.runs.follow import each_step
from zeroboard.runs.snapshot import Snapshot, SnapshotReader

GLANCE = 8 << 20
"""Bytes of all logs together that a look at a run may cost."""
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
    last = [snapshot.last] if snapshot.last is not None else []
    heard = [event.time for event in (*last, *snapshot.ranks[-1:], *snapshot.saves[-1:])]
    facts = RunFacts(
        state=snapshot.state,
        errors=snapshot.errors,
        steps=tuple(each_step(run)),
        last_event=max(heard, default=None),
        spec=spec,
    )
    found = logs(run.folder)
    problem = snapshot.state.problem
    skip = ["supervisor.log"] if problem is None or problem.says != "run.failed.supervisor" else []
    if problem is None or problem.says != "run.failed.verb":
        skip.append("verbs.log")
    last = max(LEAST, GLANCE // max(1, len(found))) if glance else None
    diagnosis = judge(run.folder, now=time.time(), facts=facts, skip=skip, last=last)
    return diagnosis or Diagnosis(root=None)


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
