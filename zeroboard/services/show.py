"""One run, whole, as the JSON of `zeroboard show`."""

from __future__ import annotations

from typing import Any

from zeroboard.contract.events import EvalEvent, StepEvent
from zeroboard.messages import Language
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs.follow import each_event
from zeroboard.runs.snapshot import Snapshot
from zeroboard.services import diagnose, runs, words


def show(paths: Paths, run_id: str, *, language: Language = "en") -> dict[str, Any]:
    """State, progress, metrics, proof, findings and report of a run. Raises `NotFound`, `BrokenFile`."""
    return describe(paths, runs.reader(paths, run_id).read(), language=language)


def describe(paths: Paths, snapshot: Snapshot, *, language: Language = "en") -> dict[str, Any]:
    """The same for a snapshot that was read before."""
    state = snapshot.state
    run = paths.run(state.id)
    spec = diagnose.asked(run)
    return {
        "id": state.id,
        "name": state.name,
        "state": state.state,
        "folder": str(run.folder),
        "result": str(run.model) if run.model.is_dir() else None,
        "created": state.created,
        "started": state.started,
        "ended": state.ended,
        "phase": state.phase,
        "stop": state.stop,
        "exit_code": state.exit_code,
        "spec": spec.model_dump(mode="json") if spec is not None else None,
        "plan": words.plan(snapshot.plan, language) if snapshot.plan is not None else None,
        "progress": {
            "step": state.step,
            "steps": state.steps,
            "epoch": snapshot.epoch,
            "eta_s": snapshot.eta_s,
            "elapsed_s": snapshot.elapsed,
            "cost": snapshot.cost,
            "cost_expected": snapshot.cost_expected,
            "mfu": snapshot.series.mfu[-1][1] if snapshot.series.mfu else None,
            "peaks": {str(rank): peak for rank, peak in snapshot.peaks.items()},
        },
        **_measured(run),
        "proof": words.proof(snapshot.proof, language) if snapshot.proof is not None else None,
        "findings": _findings(paths, snapshot, language),
        "problem": words.problem(state.problem, language) if state.problem is not None else None,
        "report": words.report(snapshot.report, language) if snapshot.report is not None else None,
    }


def _measured(run: RunPaths) -> dict[str, list[dict[str, Any]]]:
    """Every step and every evaluation that was told, whole: the only place that wants all of them."""
    found: dict[str, list[dict[str, Any]]] = {"metrics": [], "evaluations": []}
    for event in each_event(run):
        if isinstance(event, StepEvent | EvalEvent):
            name = "metrics" if isinstance(event, StepEvent) else "evaluations"
            found[name].append(event.model_dump(mode="json", exclude={"kind", "seq", "rank"}))
    return found


def _findings(paths: Paths, snapshot: Snapshot, language: Language) -> list[dict[str, Any]]:
    """Why it failed, or what is noticed while it goes on (`zeroboard diagnose` looks at any)."""
    found = diagnose.of_any(paths.run(snapshot.state.id), snapshot)
    return [diagnose.finding(finding, language) for finding in found.findings]
