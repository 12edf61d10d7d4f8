"""Fetching a model or a data set from a hub, before any plan is made of it: a plan needs `config.json`, and the rows.

The download runs in a process of its own (`zeroboard.services.download`), so that it can be ended at any moment. The
token comes as one line of its standard input: it stands in no argument list, no environment, no file and no log.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from zeroboard.contract.hub import HubFetch, HubKind, HubTold
from zeroboard.contract.problems import Problem
from zeroboard.errors import Refused
from zeroboard.paths import Paths
from zeroboard.planning import hub
from zeroboard.planning.hub import HubFolder, HubRef
from zeroboard.runs.verbs import Cancelled
from zeroboard.services import children
from zeroboard.services.hubs import TOKENS

OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
TRUE = ("1", "ON", "YES", "TRUE")
"""Values of these that the hub's library takes for yes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """How far it is, in bytes."""

    done: int
    total: int | None
    """None: the hub has not said yet."""

    @property
    def share(self) -> float | None:
        return min(1.0, self.done / self.total) if self.total else None


def wanted(text: str, kind: HubKind = "model") -> HubRef:
    """The repository that a person names. Raises `Refused` where it is none."""
    ref = hub.parse(text, kind)
    if ref is None:
        raise Refused([hub.missing(text, kind)])
    return ref


def known_token(ref: HubRef) -> str | None:
    """The access token of this process's environment, for the site of a name."""
    return os.environ.get(TOKENS[ref.site]) or None


def ensure(
    paths: Paths,
    text: str,
    *,
    kind: HubKind = "model",
    code: bool = False,
    token: str | None,
    on_progress: Callable[[Coming], None],
) -> None:
    """Fetch what a spec names where it means a hub and did not come yet; else nothing is asked of anybody."""
    if not hub.names_hub(text):
        return
    ref = wanted(text, kind)
    known = hub.find(ref, paths)
    if known is None or (code and not known.manifest.code):
        fetch(paths, ref, code=code, token=token, on_progress=on_progress)


def fetch(
    paths: Paths,
    ref: HubRef,
    *,
    code: bool = False,
    token: str | None = None,
    on_progress: Callable[[Coming], None] = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> HubFolder:
    """The model in `cache/models/hub/`, or the data in `cache/data/hub/`; what came before is not fetched again.

    `code`: Python files too. Raises `Refused` with the reason, and `Cancelled`; then
    what came waits for the next time.
    """
    known = hub.find(ref, paths)
    if known is not None and known.manifest.commit == ref.revision and (known.manifest.code or not code):
        return known  # a commit never changes
    if token is not None and not _sendable(token):
        raise Refused([Problem(code="hub-token")])
    if (offline := next((name for name in OFFLINE if os.environ.get(name, "").upper() in TRUE), None)) is not None:
        says, params = "problem.hub-unreachable.offline", {"repository": ref.repository, "name": offline}
        raise Refused([Problem(code="hub-unreachable", says=says, params=dict(params))])
    root = hub.root(paths, ref.kind)
    root.mkdir(parents=True, exist_ok=True)
    paths.logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".told-", dir=root) as folder:
        told = Path(folder, "told.json")
        asked = HubFetch(
            site=ref.site, kind=ref.kind, repository=ref.repository, revision=ref.revision, file=ref.file,
            root=str(root.absolute()), lock=str(paths.locks.absolute()), free=shutil.disk_usage(root).free,
            code=code, token=token,
        )  # fmt: skip
        exit_code = children.run(
            [sys.executable, "-m", "zeroboard.services", "download", str(told)],
            log=paths.logs / "hub.log",
            env=children.environment(HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_XET="1", HF_HOME=folder),
            cancelled=cancelled,
            on_look=lambda: on_progress(_coming(told)),
            words=asked.model_dump_json().encode() + b"\n",
        )
        said = _read(told)
    manifest = hub.read_manifest(Path(said.folder)) if said.folder is not None else None
    if said.folder is not None and manifest is not None:
        return HubFolder(folder=Path(said.folder), manifest=manifest)
    if said.problem is not None:
        raise Refused([said.problem])
    tail = (children.tail(paths.logs / "hub.log").splitlines() or [f"exit code {exit_code}"])[-1][:300]
    raise Refused([Problem(code="hub-failed", params={"repository": ref.repository, "why": tail})])


def _sendable(token: str) -> bool:
    return bool(token) and token.isascii() and token.isprintable() and " " not in token


def _read(told: Path) -> HubTold:
    try:
        return HubTold.model_validate_json(told.read_bytes())
    except (FileNotFoundError, ValidationError):  # it has said nothing
        return HubTold()


def _coming(told: Path) -> Coming:
    said = _read(told)
    return Coming(done=_weight(Path(said.partial)) if said.partial else 0, total=said.total)


def _weight(folder: Path) -> int:
    """Bytes of the files that came, and of those that are coming."""
    size = 0
    for file in folder.rglob("*"):
        try:
            size += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:  # it has just taken its place
            continue
    return size


@dataclass(slots=True)
class Job:
    """One model or data set that comes for the pages of this process."""

    coming: Coming = field(default_factory=lambda: Coming(done=0, total=None))
    stop: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None

    @property
    def cancelled(self) -> bool:
        return isinstance(self.error, Cancelled)


class Fetching:
    """What is being fetched for the pages of this process; it goes on when a page closes."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._jobs: dict[tuple[HubKind, str], Job] = {}
        self._lock = threading.Lock()

    def start(self, text: str, *, kind: HubKind = "model", code: bool, token: str | None) -> Job:
        """Begin, or join what is coming already. Raises `Refused` where the name is none.

        Without a token the one of this process's environment is used, as on the command line.
        """
        ref = wanted(text, kind)
        with self._lock:
            job = self._jobs.get((kind, text))
            if job is None or job.ended.is_set():
                job = self._jobs[kind, text] = Job()
                work = threading.Thread(
                    target=self._work,
                    args=(job, ref, code, token or known_token(ref)),
                    name="fetching",
                    daemon=True,
                )
                work.start()
        return job

    def look(self, text: str, kind: HubKind = "model") -> Job | None:
        """The last one of this name, ended or not; None where nobody asked for it."""
        return self._jobs.get((kind, text))

    def _work(self, job: Job, ref: HubRef, code: bool, token: str | None) -> None:
        def told(coming: Coming) -> None:
            job.coming = coming

        try:
            fetch(self._paths, ref, code=code, token=token, on_progress=told, cancelled=job.stop.is_set)
        except Exception as error:  # noqa: BLE001 - whoever looks tells it
            job.error = error
        finally:
            job.ended.set()
