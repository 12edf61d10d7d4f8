"""The files of a consolidation: which states count, whether all are there, and whether they may be opened at all.

Covered: what `states` judges, states of tensor parallelism (refused), pickles of folders that are not ours, classes in
a pickle that no state of DeepSpeed needs. What the values inside have to agree on is in `consolidate_layout`. Nothing
is unpickled here.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from zeroboard.checkpoints import pickles, states
from zeroboard.checkpoints.findings import Findings, printable
from zeroboard.checkpoints.folder import Folder, list_folder
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.errors import Refused, UnsafePath
from zeroboard.paths import confine

ALLOWED_CLASSES = (
    "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler",
    "deepspeed.runtime.fp16.loss_scaler.LossScaler",
    "deepspeed.runtime.zero.config.ZeroStageEnum",
    "deepspeed.utils.tensor_fragment.fragment_address",
)
"""What DeepSpeed 0.14 to 0.19 puts into the states of ZeRO beside tensors and plain values; all of it is data."""

_STORAGES = ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
_TYPES = ("bfloat16", "bool", "float16", "float32", "float64", "int16", "int32", "int64", "int8", "uint8")

ALLOWED = frozenset(
    (
        *ALLOWED_CLASSES,
        *("__builtin__.set", "_codecs.encode", "builtins.set", "collections.Counter", "collections.OrderedDict"),
        *("torch.Tensor", "torch._tensor._rebuild_from_type_v2", "torch.nn.parameter.Parameter"),
        *("torch.Size", "torch.device", "torch.serialization._get_layout", "torch.storage.UntypedStorage"),
        *("torch._utils._rebuild_parameter", "torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2"),
        *(f"torch.{name}Storage" for name in _STORAGES),
        *(f"torch.{name}" for name in _TYPES),
    )
)
"""All that a pickle of these states may name; tensors are made of the rest."""

SWAPPED = "offloaded_tensors"
"""Folder of a checkpoint that DeepSpeed copies states into that were swapped to a disk: `rank00/0_11.tensor.swp` …"""
SIZES = "zeroboard-sizes.json"
"""Beside them: how many elements of each file count. DeepSpeed notes it nowhere."""

MARGIN = 64 << 20
"""Bytes that stay free on the disk: headers, tokenizer, the folder itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The files that will be read, in the order of their ranks."""

    folder: Folder
    layout: states.Layout
    models: tuple[Path, ...]
    optim: tuple[Path, ...]


def find_sources(path: Path, *, runs: Path | None, trusted: bool) -> Sources:
    """The states in a folder, judged by names, sizes and opcodes.

    `runs`: the folder of this installation's own runs, whose pickles need no tick. `trusted`: the person has said that
    the pickles of this folder may be opened. Raises `NotFound`, and `Refused` with everything that stands in the way.
    """
    folder = list_folder(path)
    found = None if folder.loose else states.layout(folder)
    if found is None or not states.is_zero(folder):
        raise Refused([_problem("checkpoint-kind", path=str(path))])
    problems = _judge_files(folder, found)
    files = [folder.path / name for name in (*found.models.values(), *found.optim.values())]
    if not trusted and not _own(files, runs):
        problems.append(_problem("unsafe-pickle", "untrusted", path=str(path), files=len(files)))
    problems += [p for file in files for p in _judge_globals(file)]
    if problems:
        raise Refused(problems)
    return Sources(
        folder=folder,
        layout=found,
        models=tuple(folder.path / found.models[rank] for rank in sorted(found.models)),
        optim=tuple(folder.path / found.optim[rank] for rank in sorted(found.optim)),
    )


def judge_room(target: Path, needed: int) -> tuple[Problem, ...]:
    """Whether the disk that will hold `target` has room for so many bytes."""
    place = target.parent
    try:
        while not place.exists():
            place = place.parent
        free = shutil.disk_usage(place).free
    except OSError:  # a path that cannot be one: said by `whole_folder`
        return ()
    if needed + MARGIN <= free:
        return ()
    return (no_room(target, needed, free),)


def no_room(target: Path, needed: int, free: int) -> Problem:
    """The disk is full, or would be."""
    return _problem("disk-space", "export", need=_gib(needed), free=_gib(free), path=str(target.parent))


def _judge_files(folder: Folder, found: states.Layout) -> list[Problem]:
    findings = Findings()
    states.judge_states(folder, findings)
    problems = [
        Problem(code="checkpoint-incomplete", says=check.says, params=check.params)
        for check in findings.checks()
        if check.verdict == "fail"
    ]
    if found.tensor_parallel:
        problems.append(_problem("checkpoint-unsupported", "tensor-parallel", path=str(folder.path)))
    if not found.optim and not problems:
        problems.append(_problem("checkpoint-kind", path=str(folder.path)))
    return problems


def _own(files: list[Path], runs: Path | None) -> bool:
    """Whether every file really lies in the folder of our runs, links followed."""
    try:
        return runs is not None and all(confine(file, [runs]) for file in files)
    except (UnsafePath, OSError):
        return False


def _judge_globals(file: Path) -> list[Problem]:
    names = pickles.globals_in(file)
    if names is None:  # damaged: said by the checks of the files, or when it is read
        return []
    foreign = sorted(names - ALLOWED)
    if not foreign:
        return []
    shown = printable(", ".join(foreign[:5]))
    return [_problem("unsafe-pickle", "global", file=printable(file.name), names=shown, count=len(foreign))]


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"


def _problem(code: str, what: str | None = None, **params: Scalar) -> Problem:
    return Problem(code=code, says=f"problem.{code}.{what}" if what else None, params=params)
