"""Judging data files: once for each content, and for the page in the background, with progress and a stop.

A report is remembered until a file of it changes. What was begun for the page goes on only while somebody looks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from zeroboard.catalogue import DATASETS
from zeroboard.contract.mix import PLAIN, DataPart, Mix
from zeroboard.contract.problems import Problem
from zeroboard.contract.reports import DataReport
from zeroboard.contract.spec import DataSpec
from zeroboard.data.folders import data_files
from zeroboard.data.judge import judge
from zeroboard.data.records import OnProgress
from zeroboard.errors import NotFound
from zeroboard.paths import Paths, reachable
from zeroboard.planning import hub
from zeroboard.planning.tokens import content

REMEMBERED = 16
"""Reports of data files that are remembered."""
PATIENCE = 0.4
"""Seconds that a look waits, so that a small file is judged at once."""
ABANDONED = 90.0
"""Seconds after which a file that nobody looks at is not judged any further; a hidden tab looks once a minute."""
AT_ONCE = 2
"""Files that are judged at a time; others wait."""
SAID = {
    "error.data-unreadable": "unreadable",
    "error.data-not-fetched": "not-fetched",
    "error.data-hub-name": "hub-name",
}
"""Sentence of an error → last part of the plan's own sentence about it."""
BREATH = 0.002
"""Seconds of rest after each block that is read, in which the page answers."""

Columns = Mapping[str, str]
NO_COLUMNS: Columns = MappingProxyType({})
_Key = tuple[object, ...]
_judged: dict[_Key, DataReport] = {}


def located(paths: Paths, text: str) -> str:
    """Where data of a hub lies once it came; every other text is a path or a name as it stands.

    Raises `NotFound` (`error.data-not-fetched`, `error.data-hub-name`).
    """
    if not hub.names_hub(text):
        return text
    return str(from_hub(paths, text).data)


def from_hub(paths: Paths, text: str) -> hub.HubFolder:
    """What came of a hub's name; raises `NotFound` where nothing did."""
    ref = hub.parse(text, "dataset")
    if ref is None:
        raise NotFound("error.data-hub-name", path=text[:200])
    found = hub.find(ref, paths)
    if found is None:
        raise NotFound("error.data-not-fetched", path=text[:200])
    return found


def data_file(path_or_name: str) -> Path:
    """The file behind the name of a bundled data set, or of a path; raises `NotFound` where nothing is there."""
    found = DATASETS.get(path_or_name) or reachable(path_or_name)
    if found is None:
        raise NotFound("error.data-not-found", path=path_or_name)
    return found


def mix_at(paths: Paths, mix: Mix) -> Mix:
    """The mix by the places of its files; raises `NotFound` with the name of one that is not there."""

    def there(part: DataPart) -> DataPart:
        return part.model_copy(update={"path": str(data_file(located(paths, part.path)))})

    held_out = there(mix.held_out) if mix.held_out is not None else None
    return mix.model_copy(update={"more": tuple(map(there, mix.more)), "held_out": held_out})


def judge_data(
    path_or_name: str, on_progress: OnProgress | None = None, *, columns: Columns = NO_COLUMNS, mix: Mix = PLAIN
) -> DataReport:
    """Judge a data file, or a folder, row by row; raises `NotFound` (`error.data-unreadable`: there, but closed).

    The last few are remembered until the file changes. `on_progress` is called with the share that is read; `columns`
    say what columns mean, our name → theirs. `mix`: what is judged with it, by absolute paths.
    """
    mix = mix.unweighed
    key = _key(path_or_name, columns, mix)
    known = _judged.get(key)
    if known is not None:
        return known
    try:
        report = judge(data_file(path_or_name), columns=columns, mix=mix, on_progress=on_progress)
    except OSError as error:
        raise _unreadable(_blamed(error, path_or_name, mix), error) from error
    while len(_judged) >= REMEMBERED:
        _judged.pop(next(iter(_judged)), None)
    _judged[key] = report
    return report


def _key(path_or_name: str, columns: Columns, mix: Mix) -> _Key:
    """What a report hangs on; raises `NotFound`. Time and size stand for a file's content."""
    parts = [(path_or_name, columns), *((part.path, part.columns) for part in _parts(mix))]
    return (len(mix.more), *(_stamps(path, meant) for path, meant in parts))


def _parts(mix: Mix) -> Iterator[DataPart]:
    yield from mix.more
    if mix.held_out is not None:
        yield mix.held_out


def _stamps(path_or_name: str, columns: Columns) -> _Key:
    path = data_file(path_or_name)
    try:
        stamps = tuple((file, facts.st_mtime_ns, facts.st_size) for file in data_files(path) for facts in [file.stat()])
    except OSError as error:
        raise _unreadable(path_or_name, error) from error
    return path, stamps, tuple(sorted(columns.items()))


def _blamed(error: OSError, path_or_name: str, mix: Mix) -> str:
    """Of the files and folders that are read, the one that an error is about; the first, where it does not say."""
    file = str(error.filename or "")
    return next((one.path for one in _parts(mix) if file == one.path or file.startswith(f"{one.path}/")), path_or_name)


def _unreadable(path: str, error: OSError) -> NotFound:
    return NotFound("error.data-unreadable", path=path, why=error.strerror or str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How far the judging of a data file is. One of the four is there."""

    report: DataReport | None = None
    done: float | None = None
    """Share that is read, 0 to 1, while it goes on."""
    stopped: bool = False
    """A person stopped it."""
    error: NotFound | None = None

    def problem(self, path: str, mix: Mix = PLAIN) -> Problem | None:
        """Why there is no report, as the plan tells it; `path` and those of `mix` as they were written."""
        if self.error is not None:
            says = f"problem.data-missing.{SAID[self.error.says]}" if self.error.says in SAID else None
            absent, field = str(self.error.params.get("path", path)), "data.path"
            if mix.held_out is not None and _names(mix.held_out.path, absent):
                field = "data.eval_path"
            if any(_names(part.path, absent) for part in mix.more):
                field = "data.more"
            shown = path if field == "data.path" else absent
            if says is None and hub.looks_like_hub(shown):
                says = "problem.data-missing.hub"
            return Problem(code="data-missing", field=field, says=says, params={**self.error.params, "path": shown})
        if self.report is not None:
            return None
        says = "problem.data-unjudged.stopped" if self.stopped else None
        return Problem(code="data-unjudged", field="data.path", says=says, params={"path": path})


def _names(written: str, place: str) -> bool:
    """Whether what a person wrote is this place."""
    return written == place or (not hub.names_hub(written) and str(reachable(written)) == place)


def absent(paths: Paths, spec: DataSpec) -> tuple[Problem, ...]:
    """Every file of a spec's data that is not there, as the plan tells it."""
    found = []
    for path in (spec.path, *spec.mix.paths):
        try:
            data_file(located(paths, path))
        except NotFound as error:
            problem = Judgement(error=error).problem(spec.path, spec.mix)
            found += [problem] if problem is not None else []
    return tuple(found)


def judged_now(paths: Paths, spec: DataSpec) -> Judgement:
    """The data of a spec judged, however long that takes."""
    try:
        mix = mix_at(paths, spec.mix)
        return Judgement(report=judge_data(located(paths, spec.path), columns=spec.chosen, mix=mix))
    except NotFound as error:
        return Judgement(error=error)


class _Stopped(Exception):
    """Nobody wants it any more."""


@dataclass(slots=True)
class _Job:
    """One file that is being judged."""

    name: str
    columns: Columns
    mix: Mix
    done: float = 0.0
    wanted: float = field(default_factory=time.monotonic)
    stop: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    outcome: DataReport | Exception | None = None

    def told(self, share: float) -> None:
        self.done = share
        if self.stop.is_set() or time.monotonic() - self.wanted > ABANDONED:
            raise _Stopped
        time.sleep(BREATH)


class Judging:
    """What is being judged for the pages of this process."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._jobs: dict[_Key, _Job] = {}
        self._lock = threading.Lock()
        self._places = threading.Semaphore(AT_ONCE)

    def look(self, name: str, *, columns: Columns = NO_COLUMNS, mix: Mix = PLAIN, wait: float = PATIENCE) -> Judgement:
        """How far the file is, after at most `wait` seconds; begins where nobody has. Raises what broke it.

        `mix`: what is judged with it, as it was written.
        """
        try:
            name, mix = located(self._paths, name), mix_at(self._paths, mix).unweighed
            key = _key(name, columns, mix)
        except NotFound as error:
            return Judgement(error=error)
        known = _judged.get(key)
        if known is not None:
            return Judgement(report=known)
        with self._lock:
            self._forget(key)
            job = self._jobs.get(key)
            if job is None:
                job = self._jobs[key] = _Job(name, dict(columns), mix)
                threading.Thread(target=self._work, args=(job,), name="judging", daemon=True).start()
        job.wanted = time.monotonic()
        if not job.ended.wait(wait):
            return Judgement(done=job.done)
        return self._ended(key, job)

    def stop(self, name: str, *, columns: Columns = NO_COLUMNS, mix: Mix = PLAIN) -> None:
        """End it; it stays ended until `again`."""
        job = self._job(name, columns, mix)
        if job is not None:
            job.stop.set()
            job.ended.wait(PATIENCE)

    def again(self, name: str, *, columns: Columns = NO_COLUMNS, mix: Mix = PLAIN) -> None:
        """Forget that it was stopped: the next look begins anew."""
        with self._lock:
            job = self._job(name, columns, mix)
            if job is not None and job.ended.is_set():
                self._jobs = {key: other for key, other in self._jobs.items() if other is not job}

    def _job(self, name: str, columns: Columns, mix: Mix) -> _Job | None:
        try:
            mix = mix_at(self._paths, mix).unweighed
            return self._jobs.get(_key(located(self._paths, name), columns, mix))
        except NotFound:  # gone since: nothing is to be ended
            return None

    def _forget(self, wanted: _Key) -> None:
        """Leave out what has ended, but for what a person stopped."""
        self._jobs = {
            key: job for key, job in self._jobs.items() if key == wanted or job.stop.is_set() or not job.ended.is_set()
        }

    def _ended(self, key: _Key, job: _Job) -> Judgement:
        outcome = job.outcome
        if isinstance(outcome, DataReport):
            return Judgement(report=outcome)
        if job.stop.is_set():
            return Judgement(stopped=True)
        with self._lock:
            self._jobs.pop(key, None)  # the next look tries again
        if isinstance(outcome, NotFound):
            return Judgement(error=outcome)
        if outcome is None or isinstance(outcome, _Stopped):
            return Judgement(done=0.0)
        raise outcome

    def _work(self, job: _Job) -> None:
        try:
            while not self._places.acquire(timeout=0.1):
                job.told(0.0)
            try:
                job.outcome = judge_data(job.name, job.told, columns=job.columns, mix=job.mix)
                for path in (job.name, *job.mix.paths):
                    content(data_file(path))  # the plan asks for it, and need not wait then
            finally:
                self._places.release()
        except Exception as error:  # noqa: BLE001 - whoever looks raises it
            job.outcome = error
        finally:
            job.ended.set()
