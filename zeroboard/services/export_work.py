"""The work of an export, from its record to the folder: weights, GGUF, verification, card, name, hub.

Everything is written beside the target and verified there; only a folder that is whole takes the name. One that does
not pass its verification is delivered too, with the verdict in its card, and is not sent anywhere.
"""

from __future__ import annotations

import json
import logging
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from zeroboard.checkpoints.consolidate import no_room
from zeroboard.checkpoints.folder import list_folder
from zeroboard.checkpoints.inspect import inspect
from zeroboard.checkpoints.whole import whole_folder
from zeroboard.contract.exports import Delivered, ExportPhase, ExportReport, ExportState, ExportWish
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.contract.prompts import read_prompts
from zeroboard.contract.reports import VerifyReport
from zeroboard.contract.requests import CompareRequest, Exported, ExportRequest, Progress, VerifyRequest
from zeroboard.errors import EngineFailed, Refused, ZeroBoardError
from zeroboard.files import DISK_FULL, to_json, write_atomic, write_last, write_over
from zeroboard.paths import ExportPaths, Paths
from zeroboard.runs import verbs
from zeroboard.runs.processes import own_mark
from zeroboard.runs.verbs import Cancelled
from zeroboard.services import children, export_card, exports, gguf, push, results

log = logging.getLogger(__name__)

WEIGHTS = ".weights"
"""Room for the engine inside the folder that is being made: it makes a folder there, whose files then move up. (One
level deeper, because whoever makes a whole folder locks the one that holds it, and ours is locked.)"""

QUIET = 0.5
"""Seconds between two writes of mere progress."""

OnState = Callable[[ExportState], None]


def main(folder: Path) -> int:
    """The detached process: one line of JSON with the token (or null) comes on standard input."""
    job = ExportPaths(folder.absolute())
    token = json.loads(sys.stdin.readline() or "{}").get("token")
    paths = Paths(job.folder.parent.parent.parent)
    return 0 if work(paths, job, token).state == "finished" else 1


def work(paths: Paths, job: ExportPaths, token: str | None, on_state: OnState = lambda state: None) -> ExportState:
    """Work through a record to its end and return its last state. Whatever happens is in that state."""
    mine = {"process": own_mark(), "host": socket.gethostname()}
    record = _Record(job, exports.read_state(job).model_copy(update=mine), on_state)
    record.write()
    try:
        with _asked_to_leave(record):
            try:
                report = _export(paths, job, exports.read_wish(job), token, record)
            finally:
                shutil.rmtree(job.adapter, ignore_errors=True)
        problems = _unsound(report)
        record.end("failed" if problems else "finished", problems)
    except (Cancelled, KeyboardInterrupt):
        record.end("cancelled", ())
    except Refused as refused:
        record.end("failed", refused.problems)
    except ZeroBoardError as error:
        params: dict[str, Scalar] = {key: str(value) for key, value in error.params.items()}
        record.end("failed", (Problem(code="export-failed", says=error.says, params=params),))
    except Exception as error:  # the page sees nothing but the record
        log.exception("the export failed")
        params = {"why": f"{type(error).__name__}: {error}"[:400], "log": str(job.log)}
        record.end("failed", (Problem(code="export-failed", params=params),))
    return record.state


@dataclass(slots=True)
class _Record:
    """Keeps `state.json` true."""

    job: ExportPaths
    state: ExportState
    on_state: OnState
    leave: bool = field(default=False)
    """A signal has asked us to end."""
    written: float = field(default=0.0)

    def cancelled(self) -> bool:
        return self.leave or self.job.cancel.exists()

    def phase(
        self, phase: ExportPhase, done: float | None, says: str | None = None, params: dict[str, Scalar] | None = None
    ) -> None:
        new = phase != self.state.phase
        update = {"phase": phase, "done": done, "says": says, "params": params or {}}
        self.state = self.state.model_copy(update=update)
        if new or time.monotonic() - self.written >= QUIET:
            self.write()
        self.on_state(self.state)
        if self.cancelled():
            raise Cancelled

    def end(self, stage: Any, problems: tuple[Problem, ...]) -> None:
        self.state = self.state.model_copy(update={"state": stage, "ended": time.time(), "problems": problems})
        write_last(self.job.state, to_json(self.state.model_dump(mode="json")))
        self.on_state(self.state)

    def write(self) -> None:
        self.written = time.monotonic()
        try:
            write_over(self.job.state, to_json(self.state.model_dump(mode="json")))
        except OSError as error:  # the target may lie on another disk, which has room
            if error.errno not in DISK_FULL:
                raise
            log.warning("no room for the state of the export: %s", error)


class _asked_to_leave:
    """SIGTERM is a wish to cancel, so that nothing half stays behind. (Only the main thread may hear signals.)"""

    def __init__(self, record: _Record) -> None:
        self._record = record
        self._before: Any = None

    def __enter__(self) -> None:
        def leave(number: int, frame: FrameType | None) -> None:
            self._record.leave = True

        self._before = signal.signal(signal.SIGTERM, leave)

    def __exit__(self, *error: object) -> None:
        signal.signal(signal.SIGTERM, self._before)


def _export(paths: Paths, job: ExportPaths, wish: ExportWish, token: str | None, record: _Record) -> ExportReport:
    started = time.monotonic()
    target = Path(wish.target)
    try:
        with whole_folder(target) as room:
            written = _weights(paths, job, wish, room, record)
            file = _gguf(job, wish, room, record) if wish.gguf else None
            verification = _verify(paths, job, wish, room, record).model_copy(update={"path": str(target)})
            export_card.write(paths, wish, room, written, verification, file)
            report = ExportReport(
                path=str(target),
                kind=verification.kind,
                dtype=_text(verification.facts.get("dtype")),
                files=tuple(Delivered(name=name, bytes=size) for name, size in list_folder(room).files.items()),
                stops=written.stops,
                notes=written.notes,
                verification=verification,
                gguf=file,
                seconds=round(time.monotonic() - started, 2),
            )
            record.phase("check", 1.0)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise Refused([no_room(target, exports.expected_bytes(wish) or 0, 0)]) from error
    except Refused as refused:  # the engine knows only the folder that is gone by now
        raise Refused([_at(target, problem) for problem in refused.problems]) from refused
    write_atomic(job.report, report.model_dump_json(indent=2))
    if wish.push and verification.verdict != "fail":
        assert token is not None
        record.phase("push", None, "export.pushing", {"repository": wish.push})
        where = push.push(target, wish.push, token, public=wish.public, log=job.log, cancelled=record.cancelled)
        report = report.model_copy(update={"pushed": where})
        write_atomic(job.report, report.model_dump_json(indent=2))
    return report


def _at(target: Path, problem: Problem) -> Problem:
    """A full disk is named by the folder that the person knows."""
    if problem.code != "disk-space":
        return problem
    return problem.model_copy(update={"params": {**problem.params, "path": str(target.parent)}})


def _weights(paths: Paths, job: ExportPaths, wish: ExportWish, room: Path, record: _Record) -> Exported:
    place = room / WEIGHTS / "model"
    place.parent.mkdir()
    request = ExportRequest(
        path=wish.path,
        target=str(place),
        base=wish.base,
        merge=wish.merge,
        adapter=str(job.adapter),
        dtype=wish.dtype,
        shard_bytes=wish.shard_bytes,
        runs=str(paths.runs),
        trust_pickles=wish.trust_pickles,
        trust_remote_code=wish.trust_remote_code,
        published=bool(wish.push),
    )
    record.phase("weights", None, "export.starting")
    written = Exported.model_validate(_call("export", request, "weights", record))
    for file in place.iterdir():
        file.rename(room / file.name)
    place.rmdir()
    place.parent.rmdir()
    return written


def _gguf(job: ExportPaths, wish: ExportWish, room: Path, record: _Record) -> str:
    assert wish.gguf is not None
    facts = inspect(room).facts
    elements = facts.get("parameters")
    expected = int((elements if isinstance(elements, int) else 0) * gguf.BYTES.get(wish.gguf, 1.0))
    name = f"model-{wish.gguf}.gguf"
    record.phase("gguf", 0.0, "export.gguf")
    gguf.convert(
        room, wish.gguf, wish.llama_cpp, room / name, expected=expected, log=job.log, cancelled=record.cancelled,
        on_done=lambda done: record.phase("gguf", done, "export.gguf"),
    )  # fmt: skip
    return name


def _verify(paths: Paths, job: ExportPaths, wish: ExportWish, room: Path, record: _Record) -> VerifyReport:
    """The files, then the load in a fresh process: a merged model against the adapter on its base, all else against
    the base."""
    record.phase("check", None, "verify.files")
    trusted = wish.trust_remote_code
    if wish.merge:
        adapter = str(job.adapter) if wish.kind == "zero-checkpoint" else wish.path
        asked = CompareRequest(merged=str(room), path=adapter, base=wish.base, trust_remote_code=trusted)
        return VerifyReport.model_validate(_call("compare", asked, "check", record))
    rows = results.rows_of(paths, wish.run_id) if wish.run_id is not None else None
    request = VerifyRequest(
        path=str(room), base=wish.base, rows=rows, prompts=read_prompts(paths), trust_remote_code=trusted
    )
    return VerifyReport.model_validate(_call("verify", request, "check", record))


def _call(verb: verbs.Verb, request: Any, phase: ExportPhase, record: _Record) -> Any:
    def heard(said: Progress) -> None:
        record.phase(phase, said.done, said.says, dict(said.params))

    try:
        answer = verbs.call(
            verb, request, on_progress=heard, env=children.environment(), log_to=record.job.log,
            cancelled=record.cancelled,
        )  # fmt: skip
    except EngineFailed as error:
        why = str(error.params.get("tail", "")).splitlines()[-1:]
        params: dict[str, Scalar] = {"why": why[0][:400] if why else verb, "log": str(record.job.log)}
        raise Refused([Problem(code="export-failed", params=params)]) from error
    if answer.value is None:
        raise Refused(answer.problems)
    return answer.value


def _unsound(report: ExportReport) -> tuple[Problem, ...]:
    """The checks that failed, as the reason why what was delivered is not good."""
    bad = [check for check in report.verification.checks if check.verdict == "fail"]
    return tuple(Problem(code="export-unsound", says=check.says, params=check.params) for check in bad)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
