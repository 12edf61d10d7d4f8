"""Following a run to its end, and telling how it ended."""

from __future__ import annotations

import time

from zeroboard.cli.diagnose import print_finding
from zeroboard.cli.face import Face, clock, number
from zeroboard.contract.state import ENDED
from zeroboard.runs.snapshot import Snapshot
from zeroboard.services import runs, show

INTERRUPTED = 130
"""Exit code."""
LOOK = 0.3
"""Seconds between two looks."""


def watch(face: Face, run_id: str) -> int:
    """Follow a run and tell how it ended; returns the exit code. Ctrl-C ends the watching, not the run."""
    try:
        snapshot = follow(face, run_id)
    except KeyboardInterrupt:
        face.note(face.say("cli.train.goes-on", run=run_id))
        return INTERRUPTED
    return outcome(face, snapshot)


def follow(face: Face, run_id: str) -> Snapshot:
    """Show how it goes until it has ended; adopts it where its supervisor dies."""
    reader = runs.reader(face.paths, run_id)
    while True:
        snapshot = reader.read()
        if snapshot.state.state in ENDED:
            face.clear()
            return snapshot
        if snapshot.state.state == "lost":
            runs.adopt_orphans(face.paths)
            time.sleep(LOOK * 3)
        face.progress(line(face, snapshot), _done(snapshot))
        time.sleep(LOOK)


def line(face: Face, snapshot: Snapshot) -> str:
    """One line about where a run stands."""
    state = snapshot.state
    told = snapshot.phase
    if state.state in ("starting", "verifying") and told is not None:
        return face.say(f"phase.{told.phase}") if told.says is None else face.say(told.says, **told.params)
    if state.step == 0 or state.steps is None:
        return face.say(f"state.{state.state}")
    return face.say(
        "cli.follow.step",
        state=face.say(f"state.{state.state}"),
        step=state.step,
        steps=state.steps,
        loss=number(state.loss),
        left=clock(snapshot.eta_s),
    )


def outcome(face: Face, snapshot: Snapshot) -> int:
    """Print how it ended; returns the exit code: 1 for a failed run."""
    state = snapshot.state
    code = 1 if state.state == "failed" else 0
    if face.json:
        face.print_json(show.describe(face.paths, snapshot, language=face.language))
        return code
    said = show.describe(face.paths, snapshot, language=face.language)
    if said["problem"] is not None:
        face.problem(said["problem"])
    root = next((f for f in said["findings"] if f["code"] != "benign"), None)
    if root is not None and (said["problem"] is None or root["message"] != said["problem"]["message"]):
        print_finding(root, face)
    took = state.ended - state.started if state.ended is not None and state.started is not None else None
    face.print(
        face.say(
            "cli.outcome.state",
            run=state.id,
            state=face.say(f"state.{state.state}"),
            step=state.step,
            steps="–" if state.steps is None else state.steps,
            loss=number(state.loss),
            time=clock(took),
        )
    )
    if said["proof"] is not None:
        face.print(face.say("cli.outcome.proof", verdict=said["proof"]["verdict"], reason=said["proof"]["reason"]))
    if said["report"] is not None:
        face.print(face.say("cli.outcome.report", verdict=said["report"]["verdict"]))
        face.table(
            (c["name"], c["verdict"], c["detail"]) for c in said["report"]["checks"] if c["verdict"] in ("warn", "fail")
        )
    if said["result"] is not None:
        face.print(face.say("cli.outcome.result", folder=said["result"]))
        if state.state in ("finished", "stopped"):
            face.print(face.say("cli.outcome.next", run=state.id))
    return code


def _done(snapshot: Snapshot) -> float | None:
    state = snapshot.state
    if state.state == "starting":
        return state.phase_done
    if state.state == "verifying":
        return snapshot.phase.done if snapshot.phase is not None else None
    return state.step / state.steps if state.steps else None
