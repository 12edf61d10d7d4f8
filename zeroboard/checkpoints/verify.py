"""Is a result what it claims to be: every check that bytes alone can answer.

Covered: files, headers, sizes, index, names, shapes, values, training, base, tokenizer, template, config, types, unsafe
files, shards of a sharded training. Every damaged folder gets a verdict with reasons. Nothing is executed, no pickle is
opened, nothing is looked up on a hub, and memory stays at a few megabytes whatever the folder's size. Not covered:
whether the result loads and changes an answer; that is `zeroboard.engine.verify`, in a fresh process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from zeroboard.checkpoints import adapter, model, states, tokenizer, unsafe, weights
from zeroboard.checkpoints.base import Base, judge_base
from zeroboard.checkpoints.findings import Findings
from zeroboard.checkpoints.folder import Folder, list_folder
from zeroboard.checkpoints.inspect import ADAPTER_CONFIG, facts_of, kind_of
from zeroboard.contract.reports import CHECK_NAMES, Check, Kind, VerifyReport, overall
from zeroboard.modelfiles import VOCABULARIES

OnProgress = Callable[[float], None]
"""Told the share of the bytes that were looked at, 0 to 1."""


Look = Callable[..., Collection[str] | None]
"""Looks at the values: `model.judge_values`, or the stand-in that looks at none and returns None."""


class FileVerdict(NamedTuple):
    """What the bytes of a folder say."""

    kind: Kind
    checks: tuple[Check, ...]
    facts: dict[str, JsonValue]


def verify_files(
    path: Path, *, base: Path | None = None, values: bool = True, on_progress: OnProgress | None = None
) -> FileVerdict:
    """Judge a folder, or one safetensors file. Raises `NotFound` where there is nothing of that name.

    `base` goes before the base that an adapter's config names. `values` False: the headers alone, which takes a second
    whatever the size; `finite` and `trained` are skipped then.
    """
    folder = list_folder(path)
    kind = kind_of(folder)
    findings = Findings()
    look = partial(model.judge_values, on_progress=on_progress) if values else _no_values
    if folder.loose:
        _judge_file(folder, kind, findings, look)
    elif kind == "lora-adapter":
        _judge_adapter(folder, base, findings, look)
    elif kind == "full-model":
        _judge_model(folder, findings, look)
    else:
        _judge_other(folder, kind, findings)
    if not folder.loose:
        states.judge_states(folder, findings)
    unsafe.judge_unsafe(folder, findings)
    for name in folder.special:
        findings.warn("complete", "special", name)
    return FileVerdict(kind, findings.checks(), facts_of(folder, kind))


def make_report(path: Path, files: FileVerdict, loaded: Iterable[Check] = ()) -> VerifyReport:
    """The report of a verification; where nothing was loaded, the checks `load` and `effect` say so."""
    more = tuple(loaded) or tuple(
        Check(name=n, verdict="skip", says=f"check.{n}.not-asked") for n in ("load", "effect")
    )
    checks = tuple(sorted((*files.checks, *more), key=lambda check: CHECK_NAMES.index(check.name)))
    return VerifyReport(path=str(path), kind=files.kind, verdict=overall(checks), checks=checks, facts=files.facts)


def _no_values(found: weights.Weights, findings: Findings, **options: object) -> None:
    """Only the headers are looked at."""
    findings.skip("finite", "not-asked")


def _judge_model(folder: Folder, findings: Findings, look: Look) -> None:
    found = weights.read_model(folder, findings)
    model.judge_model(folder, found, findings)
    look(found, findings)
    tokenizer.judge_tokenizer(folder, model.embedding_rows(found), findings)


def _judge_adapter(folder: Folder, given: Path | None, findings: Findings, look: Look) -> None:
    names = [weights.ADAPTER] if weights.ADAPTER in folder.files else []
    found = weights.read_files(folder, names, findings)
    config = folder.json(ADAPTER_CONFIG).value or {}
    named = config.get("base_model_name_or_path")
    base = judge_base(named if isinstance(named, str) else None, given, findings)
    adapter.judge_adapter(folder, found, base, findings)
    if base is not None and base.modules:
        findings.settle("base", base=base.name)
    zero = look(found, findings, may_be_constant=adapter.starts_zero)
    if zero is None:
        findings.skip("trained", "not-asked")
    elif found.tensors:
        adapter.judge_trained(found, zero, findings)
    home = base.folder if base else None
    tokenizer.judge_tokenizer(folder, _adapter_rows(found, base), findings, base=home)


def _adapter_rows(found: weights.Weights, base: Base | None) -> int | None:
    """Rows of the embedding that will be in use: the adapter's own, where it saved one, else the base's."""
    for name, tensor in found.tensors.items():
        if name.endswith(("embed_tokens.weight", "wte.weight")) and len(tensor.shape) == 2:
            return tensor.shape[0]
    return base.rows if base else None


def _judge_other(folder: Folder, kind: Kind, findings: Findings) -> None:
    """States without a model, or nothing that is known."""
    if folder.path.name.startswith("tmp-"):
        findings.warn("complete", "unfinished", folder.path.name)
    if kind == "unknown":
        findings.fail("complete", "nothing" if not folder.files else "not-a-model", folder.path.name)
        return
    findings.note("complete", "only-states")
    if folder.files.keys() & set(VOCABULARIES):
        tokenizer.judge_tokenizer(folder, None, findings)


def _judge_file(folder: Folder, kind: Kind, findings: Findings, look: Look) -> None:
    """One file: header, size, shapes, values."""
    if kind == "unknown":
        findings.fail("complete", "not-safetensors", *folder.files)
        return
    found = weights.read_files(folder, tuple(folder.files), findings)
    if found.headers and not found.tensors:
        findings.fail("complete", "no-tensor", *folder.files, size=found.headers[0].size)
    model.judge_empty(found, findings)
    if found.tensors:
        findings.settle("shapes", tensors=len(found.tensors))
    look(found, findings, may_be_constant=adapter.starts_zero if kind == "lora-adapter" else lambda name: False)
