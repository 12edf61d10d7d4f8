"""How a run ends: what the launcher's end means, and the verification of what came out."""

from __future__ import annotations

import shutil
from pathlib import Path

from pydantic import ValidationError

from zeroboard.contract.plan import Plan
from zeroboard.contract.problems import Problem
from zeroboard.contract.prompts import read_prompts
from zeroboard.contract.reports import VerifyReport
from zeroboard.contract.requests import TrainedRows, VerifyRequest
from zeroboard.contract.spec import RunSpec
from zeroboard.contract.state import State
from zeroboard.files import to_json, write_atomic
from zeroboard.paths import Paths
from zeroboard.planning.tokens import spec_key
from zeroboard.runs.context import Context, Failed, Stopped, disk_full
from zeroboard.runs.failure import Ending, explain, oom_kills
from zeroboard.runs.watch import Watch

FULL = 1 << 20
"""Bytes free below which a disk is full: no rank can save, nor say so."""


def conclude(context: Context, watch: Watch) -> None:
    """Move the run to its end, now that the launcher is gone. Raises `Failed`."""
    life = context.life
    end, code = watch.end, life.state.exit_code
    if end is not None and end.reason != "completed" and life.state.state in ("running", "saving"):
        # the ranks saw the request, and were gone, before the supervisor looked for it
        life.go("stopping", stop="discard" if end.reason == "discarded" else "save")
    if life.state.stop == "discard" or (end is not None and end.reason == "discarded"):
        discard(context)
        life.go("stopped", phase=None, phase_done=None)
    elif end is None or (code not in (0, None) and watch.signalled is None):
        raise_failure(context, watch)
        life.go("stopped", phase=None, phase_done=None)
    elif end.reason == "stopped" and not has_model(context):
        life.go("stopped")
    else:
        verify(context, "stopped" if end.reason == "stopped" else "finished")


def raise_failure(context: Context, watch: Watch) -> None:
    """Raises `Failed` with the reason; returns only where the launcher was ended before there was anything to save."""
    life, code = context.life, context.life.state.exit_code
    if watch.signalled is not None:
        if not watch.training:
            return
        raise Failed(
            Problem(code="killed-by-signal", says="run.failed.stop-forced", params={"step": life.state.step or 0})
        )
    mute = code != 0 and not watch.errors  # a rank that could not even write why it ended
    if life.failing_since is not None or (mute and shutil.disk_usage(context.run.folder).free < FULL):
        raise Failed(disk_full(context.run))
    if code == 0 and not watch.errors:
        raise Failed(Problem(code="no-training-happened", says="run.failed.silent"))
    raise Failed(
        explain(
            Ending(
                exit_code=code,
                errors=tuple(watch.errors),
                launcher_log=context.run.launcher_log,
                oom_kills=oom_kills() - watch.oom_kills_before,
            )
        )
    )


def verify(context: Context, then: State) -> None:
    """Verify the result in a fresh process; pass or warn → `then`, fail → `Failed` with the finding, weights kept."""
    life, run = context.life, context.run
    life.go("verifying", phase=None, phase_done=None)
    resolved, spec = context.plan.resolved, context.spec()
    request = VerifyRequest(
        path=str(run.model),
        base=resolved.model_path if resolved is not None else None,
        rows=trained_rows(context.paths, context.plan, spec),
        prompts=read_prompts(context.paths),
        trust_remote_code=spec.model.trust_remote_code,
    )
    try:
        answer = context.verb("verify", request, "verify")
    except Stopped:
        stop = context.new_stop()
        drop = stop is not None and stop.discard
        if drop:
            discard(context)
        life.go("stopped", stop="discard" if drop else "save")
        return
    try:
        report = VerifyReport.model_validate(answer.value)
    except ValidationError as error:
        raise Failed(
            Problem(
                code="python-exception",
                says="run.failed.verb",
                params={"verb": "verify", "code": "0", "message": str(error), "file": "verbs.log"},
            )
        ) from error
    write_atomic(run.verify_report, to_json(report.model_dump(mode="json")))
    if report.verdict == "fail":
        bad = next(check for check in report.checks if check.verdict == "fail")
        raise Failed(
            Problem(code="verify-failed", says="run.failed.verify", params={"check": bad.name, "path": report.path})
        )
    life.go(then)


def trained_rows(paths: Paths, plan: Plan, spec: RunSpec) -> TrainedRows | None:
    """What the run was trained on; None where the plan does not say. Reads the data file once."""
    resolved, model = plan.resolved, plan.model
    if resolved is None or model is None:
        return None
    try:
        key = spec_key(spec, Path(resolved.data_path), model, resolved.mix)
    except OSError:  # gone since, or unreadable
        key = None
    return TrainedRows(
        data_path=resolved.data_path,
        unchanged=key == resolved.tokens_key,
        tokens=str(paths.tokens / resolved.tokens_key),
        max_length=spec.data.max_length,
        columns=spec.data.chosen,
        mix=resolved.mix,
    )


def has_model(context: Context) -> bool:
    """Whether a result was written."""
    folder = context.run.model
    return folder.is_dir() and any(folder.iterdir())


def discard(context: Context) -> None:
    """Remove what the run wrote: its result and its checkpoints."""
    for folder in (context.run.model, context.run.checkpoints):
        if folder.is_dir():
            shutil.rmtree(folder)
