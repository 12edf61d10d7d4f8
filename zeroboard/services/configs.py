"""A DeepSpeed file that a user brings: judged against the installed DeepSpeed, and printed as DeepSpeed takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from zeroboard.contract.folders import FolderFacts
from zeroboard.contract.host import HostFacts
from zeroboard.contract.problems import Problem, errors
from zeroboard.contract.requests import SchemaRequest
from zeroboard.contract.schema import SCHEMA_LAYOUT, Schema
from zeroboard.contract.spec import RunSpec
from zeroboard.errors import NotFound, Refused, UsageError
from zeroboard.files import write_atomic
from zeroboard.monitor.folders import folder_facts
from zeroboard.monitor.host import packages
from zeroboard.paths import Paths, reachable
from zeroboard.planning import specs
from zeroboard.planning.choices import choose_devices
from zeroboard.runs import verbs
from zeroboard.services import host as hosts
from zeroboard.services import prepare
from zeroboard.zero.adopt import adopt
from zeroboard.zero.check import check_file, swap_paths
from zeroboard.zero.normal import normalised
from zeroboard.zero.reading import SIZE_LIMIT, Read, read


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a file came to."""

    config: dict[str, Any] | None
    """Normalised; None where the file holds no object."""
    problems: tuple[Problem, ...]
    fields: dict[str, Any]
    """Dotted field of the spec → the value that the file gives it; empty where there is no object."""
    untaken: tuple[Problem, ...] = ()
    """What no field can say; an error where a run cannot be made from the file."""

    @property
    def ok(self) -> bool:
        return self.config is not None and not errors(self.problems)


def judge_config(paths: Paths, path: str, ranks: int | None = None) -> Judged:
    """Judge a file; `ranks` is how many will train with it, where that is known.

    Raises `NotFound`/`UsageError` where it cannot be read, `Refused` where no DeepSpeed is here.
    """
    found = read_file(path)
    if found.value is None:
        return Judged(config=None, problems=found.problems, fields={})
    known = schema(paths)
    problems = (*found.problems, *check_file(found.value, known, swaps(found.value)))
    taken = adopt(found.value, known, ranks=ranks)
    return Judged(config=normalised(found.value, known), problems=problems, fields=taken.values, untaken=taken.problems)


def take_over(paths: Paths, path: str, ranks: int | None = None) -> Judged:
    """A file whose values become a run's; raises `Refused` with every problem where they cannot, else as above."""
    judged = judge_config(paths, path, ranks)
    if not judged.ok or errors(judged.untaken):
        raise Refused((*judged.problems, *judged.untaken))
    return judged


def spec_with(
    paths: Paths, spec: RunSpec, path: str, sets: Sequence[str] = (), *, host: HostFacts | None = None
) -> tuple[RunSpec, tuple[Problem, ...]]:
    """A spec with a file's values over it (and `--set` values over both), and what is to be told about the file.

    Raises `Refused` where the file has errors, cannot be said by the spec's fields, or goes past their bounds.
    """
    ranks = choose_devices(spec, host or hosts.facts(paths)).ranks
    judged = take_over(paths, path, ranks)
    whole = spec.model_dump(mode="json")
    for key, value in judged.fields.items():
        section, _, name = key.partition(".")
        whole[section][name] = value
    return prepare.checked(specs.with_sets(whole, sets)), (*judged.problems, *judged.untaken)


def read_file(path: str) -> Read:
    """The object in a file, or why there is none. Raises `NotFound`/`UsageError` where nothing can be read."""
    found = reachable(path)
    if found is None or not found.is_file():
        raise NotFound("error.config-not-found", path=path)
    try:
        with found.open("rb") as stream:
            return read(stream.read(SIZE_LIMIT + 1), found.stat().st_size)
    except OSError as error:
        raise UsageError("error.unreadable", path=path, why=error.strerror or str(error)) from error


def swaps(value: dict[str, Any]) -> dict[str, FolderFacts]:
    """What is known of the folders that a file swaps to, by the paths that stand in it."""
    return {path: folder_facts(path) for path in swap_paths(value)}


def schema(paths: Paths) -> Schema:
    """What the installed DeepSpeed reads: asked once in a process of its own (some seconds), then kept by its version.

    Raises `Refused` where no DeepSpeed is installed, and `EngineFailed` where it cannot be asked.
    """
    version = packages().get("deepspeed")
    if version is None:
        raise Refused([Problem(code="dependency-missing", says="problem.dependency-missing.deepspeed")])
    kept = paths.schemas / f"deepspeed-{version}-{SCHEMA_LAYOUT}.json"
    known = _kept(kept)
    if known is None:
        answer = verbs.call("schema", SchemaRequest(), log_to=paths.logs / "schema.log")
        known = Schema.model_validate(answer.value)
        write_atomic(kept, known.model_dump_json())
    return known


def _kept(file: Path) -> Schema | None:
    """What was answered before; None where it was not, or cannot be read any more."""
    try:
        return Schema.model_validate_json(file.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
