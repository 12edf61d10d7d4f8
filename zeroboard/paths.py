"""Where everything lies. One `Paths` value is made at the front door and handed down; nothing else builds a path.

Covered: names of runs are checked before they become paths; `confine` resolves symlinks and `..`.
Not covered: what a user's own process does inside these folders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from zeroboard.errors import NotFound, UnsafePath, UsageError

HOME = Path(__file__).resolve().parent.parent
"""The folder that holds the package: where children start, so that they find the same ZeroBoard, installed or not."""

ASSETS = HOME / "assets"
"""Data that ships with the program: locales, theme, demo spec and data."""

RUN_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
"""What a run's id looks like, for example `20261129-211004-smollm2-z2-7f3a`."""


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The folder of one run."""

    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def spec(self) -> Path:
        """What the user asked, YAML."""
        return self.folder / "spec.yaml"

    @property
    def plan(self) -> Path:
        """What was decided, JSON."""
        return self.folder / "plan.json"

    @property
    def state(self) -> Path:
        """Where the run stands, JSON, replaced whole."""
        return self.folder / "state.json"

    @property
    def events(self) -> Path:
        """One JSON object a line, append only."""
        return self.folder / "events.jsonl"

    @property
    def readings(self) -> Path:
        """Samples of GPUs and host, one JSON object a line."""
        return self.folder / "readings.jsonl"

    @property
    def lock(self) -> Path:
        """Held by whoever may move the run's state."""
        return self.folder / "run.lock"

    @property
    def reserve(self) -> Path:
        """Room on the disk that is given up to say the end of a run whose disk is full."""
        return self.folder / "reserve"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def launcher_log(self) -> Path:
        return self.logs / "launcher.log"

    @property
    def supervisor_log(self) -> Path:
        return self.logs / "supervisor.log"

    def rank_log(self, rank: int) -> Path:
        return self.logs / f"rank_{rank}.log"

    @property
    def beats(self) -> Path:
        """A small file for each rank (`rank_0.json`), written over and over: how far it is, and that it lives."""
        return self.folder / "beats"

    @property
    def requests(self) -> Path:
        """Requests to the run, one file each."""
        return self.folder / "requests"

    @property
    def stop_request(self) -> Path:
        return self.requests / "stop.json"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def model(self) -> Path:
        """What came out: adapter or full model."""
        return self.folder / "model"

    @property
    def reports(self) -> Path:
        return self.folder / "reports"

    @property
    def verify_report(self) -> Path:
        return self.reports / "verify.json"


@dataclass(frozen=True, slots=True)
class ExportPaths:
    """The folder of one export's record; what it writes for others lies elsewhere."""

    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def wish(self) -> Path:
        """What was asked for, JSON."""
        return self.folder / "wish.json"

    @property
    def state(self) -> Path:
        """How far it is, JSON, replaced whole."""
        return self.folder / "state.json"

    @property
    def report(self) -> Path:
        """What was delivered, JSON."""
        return self.folder / "report.json"

    @property
    def cancel(self) -> Path:
        """There once somebody has asked that it be ended."""
        return self.folder / "cancel"

    @property
    def adapter(self) -> Path:
        """While ZeRO states are merged: the adapter that they hold, which the result is held against."""
        return self.folder / "adapter"

    @property
    def log(self) -> Path:
        """What the engine, the converter and the worker itself say."""
        return self.folder / "export.log"


@dataclass(frozen=True, slots=True)
class Paths:
    """The cache folder and what lies in it."""

    root: Path

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def models(self) -> Path:
        """Models that ZeroBoard prepared, a folder each."""
        return self.root / "models"

    @property
    def hub(self) -> Path:
        """Models that came from a hub, a folder each commit; see `planning/hub.py`."""
        return self.models / "hub"

    @property
    def data(self) -> Path:
        """Data files that came through the page."""
        return self.root / "data"

    @property
    def hub_data(self) -> Path:
        """Data sets that came from a hub, a folder for each commit and choice of files; see `planning/hub.py`."""
        return self.data / "hub"

    @property
    def tokens(self) -> Path:
        """Tokenised data, a folder per content hash."""
        return self.root / "tokens"

    @property
    def locks(self) -> Path:
        """A lock file per device."""
        return self.root / "locks"

    @property
    def logs(self) -> Path:
        """Logs of the dashboard and of short engine verbs."""
        return self.root / "logs"

    @property
    def exports(self) -> Path:
        """What was exported from the page, a folder each."""
        return self.root / "exports"

    @property
    def prompts(self) -> Path:
        """A person's own prompts, JSON: asked after each run."""
        return self.root / "prompts.json"

    @property
    def export_jobs(self) -> Path:
        """The records of all exports, a folder each."""
        return self.exports / ".jobs"

    @property
    def schemas(self) -> Path:
        """What the installed DeepSpeed says about its file, a file per version."""
        return self.root / "schemas"

    @property
    def toolchains(self) -> Path:
        """What the installed torch and DeepSpeed say about this machine, a file for each set of versions."""
        return self.root / "toolchains"

    @property
    def monitor(self) -> Path:
        """What the one poller process of this cache tells: `now.json`, its lock, its log."""
        return self.root / "monitor"

    @property
    def now(self) -> Path:
        """The machine's facts of this moment, JSON, replaced about once a second while somebody wants them."""
        return self.monitor / "now.json"

    @property
    def wanted(self) -> Path:
        """Touched by whoever wants `now`; the poller leaves when that has not been for a while, or it is gone."""
        return self.monitor / "wanted"

    @property
    def poller_lock(self) -> Path:
        return self.monitor / "poller.lock"

    @property
    def poller_log(self) -> Path:
        return self.monitor / "poller.log"

    def run(self, run_id: str) -> RunPaths:
        """The folder of a run by its id.

        Raises `NotFound` where the id could not be the name of a run (so it never leads elsewhere); the folder
        itself need not be there.
        """
        if not RUN_ID.fullmatch(run_id):
            raise NotFound("error.run-not-found", run=run_id)
        return RunPaths(self.runs / run_id)

    def export(self, export_id: str) -> ExportPaths:
        """The record of an export by its id; raises `NotFound` where the id could not be one."""
        if not RUN_ID.fullmatch(export_id):
            raise NotFound("error.export-not-found", id=export_id)
        return ExportPaths(self.export_jobs / export_id)


def reachable(text: str) -> Path | None:
    """The path that a person wrote, absolute, where something is; None where nothing is.

    Nothing is also where no file can be: a name too long or with a null character, a loop of links, a home that nobody
    has, a folder that is closed to us. Raises `UsageError` where its name is no text, so that no file could hold it.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError("error.path-encoding", path=ascii(text)) from error
    try:
        path = Path(text).expanduser().absolute()
        path.stat()
    except (OSError, ValueError, RuntimeError):
        return None
    return path if text.strip() else None


def confine(path: Path, roots: Iterable[Path]) -> Path:
    """The path, resolved, if it lies in one of the roots; raises `UnsafePath` if not."""
    resolved = path.resolve()
    for root in roots:
        if resolved.is_relative_to(root.resolve()):
            return resolved
    raise UnsafePath("error.unsafe-path", path=str(path))
