"""States of a sharded training: ZeRO's and FSDP's files, by name and size. Check `partition`.

Covered: `latest` that leads nowhere, ranks that are missing, empty, cut or uneven, model states missing. The number of
ranks is taken from all places that tell it: the names of both kinds of states, the random states of the Trainer, and
the opcodes of a pickle (see `pickles`). Not covered: the values inside; the pickles are never opened.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from zeroboard.checkpoints import pickles
from zeroboard.checkpoints.findings import Findings
from zeroboard.checkpoints.folder import Folder

LATEST = "latest"

_OPTIM = re.compile(r"(?:\w+_)?zero_pp_rank_(\d{1,5})_mp_rank_(\d{1,5})_optim_states\.pt")
_PLAIN_OPTIM = re.compile(r"mp_rank_(\d+)_optim_states\.pt")
_SHARDED_MODEL = re.compile(r"zero_pp_rank_(\d{1,5})_mp_rank_(\d{1,5})_model_states\.pt")
_MODEL = re.compile(r"mp_rank_(\d+)_model_states\.pt")
_RNG = re.compile(r"rng_state_(\d{1,5})\.pth")
_STEP = re.compile(r"global_step(\d+)")
_DISTCP = re.compile(r"__(\d{1,5})_(\d+)\.distcp")

UNEVEN = 1.05
"""Largest over smallest optimizer file; padding and pickled names make a difference of well under 5 %."""

UNEVEN_BYTES = 1 << 20
"""A difference below this is no sign of anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """DeepSpeed's states that count, by name (relative to the folder)."""

    where: str
    """Their folder, with a trailing `/`, or empty."""
    optim: dict[int, str]
    """Rank → its optimizer states."""
    models: dict[int, str]
    """Rank → its model states where each rank wrote its own (stage 3); else rank 0's alone."""
    sharded: bool
    """Each rank wrote model states of its own."""
    tensor_parallel: bool
    """A model was also split within its layers, so that a rank's files are several."""


def layout(folder: Folder) -> Layout | None:
    """The states that `latest` names, else the newest; None where there are none."""
    where = _current(folder)
    if where is None:
        return None
    found = [match for pattern in (_OPTIM, _SHARDED_MODEL) for match in _files(folder, where, pattern)]
    models = _ranks(folder, where, _SHARDED_MODEL)
    whole = {int(match[1]): name for match, name in _files(folder, where, _MODEL).items()}
    return Layout(
        where=where,
        optim=_ranks(folder, where, _OPTIM),
        models=models or {rank: name for rank, name in whole.items() if rank == 0},
        sharded=bool(models),
        tensor_parallel=any(int(match[2]) for match in found) or any(whole),
    )


def is_zero(folder: Folder) -> bool:
    """Whether DeepSpeed's states lie here: in a `global_step…` folder, or directly."""
    return bool(_state_folders(folder)) or (LATEST in folder.files and "zero_to_fp32.py" in folder.files)


def is_fsdp(folder: Folder) -> bool:
    names = [name.rsplit("/", 1)[-1] for name in folder.files]
    return any(_DISTCP.fullmatch(name) for name in names) or "pytorch_model_fsdp.bin" in names


def facts(folder: Folder) -> dict[str, JsonValue]:
    """`stage` and `world_size` of the states, as far as they can be told."""
    if not is_zero(folder):
        return {}
    where = _current(folder)
    if where is None:
        return {}
    told = _told(folder, where)
    found: dict[str, JsonValue] = {}
    stage = told.get("zero_stage", 3 if _ranks(folder, where, _SHARDED_MODEL) else None)
    if stage is not None:
        found["stage"] = stage
    if world := _world_size(folder, where, told):
        found["world_size"] = world
    return found


def judge_states(folder: Folder, findings: Findings) -> None:
    """The check, where there are states."""
    if is_zero(folder):
        _judge_zero(folder, findings)
    elif is_fsdp(folder):
        _judge_fsdp(folder, findings)


def _state_folders(folder: Folder) -> tuple[str, ...]:
    """Folders (relative, with a trailing `/`, or empty) that hold DeepSpeed's states."""
    found = set()
    for name in folder.files:
        below, _, file = name.rpartition("/")
        if any(p.fullmatch(file) for p in (_OPTIM, _PLAIN_OPTIM, _SHARDED_MODEL, _MODEL)):
            found.add(f"{below}/" if below else "")
        elif _STEP.fullmatch(below):
            found.add(f"{below}/")
    return tuple(sorted(found))


def _latest(folder: Folder) -> str | None:
    """What `latest` names; None where there is no such file."""
    if folder.files.get(LATEST, 1000) >= 1000:
        return None
    return (folder.path / LATEST).read_bytes().decode("utf-8", errors="replace").strip()


def _current(folder: Folder) -> str | None:
    """The states that count: those that `latest` names, else the only or the newest ones."""
    folders = _state_folders(folder)
    latest = _latest(folder)
    if latest is not None and f"{latest}/" in folders:
        return f"{latest}/"
    return max(folders, key=_step_of) if folders else None


def _step_of(name: str) -> int:
    step = _STEP.search(name)
    return int(step[1]) if step else -1


def _judge_zero(folder: Folder, findings: Findings) -> None:
    folders = _state_folders(folder)
    latest = _latest(folder)
    if latest is not None and f"{latest}/" not in folders:
        lying = ", ".join(f.rstrip("/") or "." for f in folders) or "–"
        findings.fail("partition", "latest-dangling", latest=latest, lying=lying)
        return
    where = _current(folder)
    if where is None:
        findings.fail("partition", "no-states", LATEST)
        return
    if latest is None and "" not in folders:
        findings.warn("partition", "no-latest", where.rstrip("/"))
    told = _told(folder, where)
    world = _world_size(folder, where, told)
    optim = _ranks(folder, where, _OPTIM)
    models = _ranks(folder, where, _SHARDED_MODEL)
    if optim or not _files(folder, where, _PLAIN_OPTIM):
        for rank in range(world):
            if rank not in optim:
                findings.fail("partition", "rank-missing", f"rank {rank}", world=world)
    if models:
        for rank in range(world):
            if rank not in models:
                findings.fail("partition", "model-rank-missing", f"rank {rank}", world=world)
    elif not _files(folder, where, _MODEL):
        findings.fail("partition", "no-model-states", where.rstrip("/") or ".")
    _judge_files(folder, where, findings)
    _judge_even(folder, optim, findings)
    findings.settle("partition", world=world, stage=told.get("zero_stage"))


def _judge_files(folder: Folder, where: str, findings: Findings) -> None:
    for name, size in folder.files.items():
        if not name.startswith(where) or not name.endswith("_states.pt"):
            continue
        if size == 0:
            findings.fail("partition", "empty", name)
        elif not _whole(folder.path / name):
            findings.fail("partition", "cut", name, size=size)


def _whole(path: Path) -> bool:
    try:
        return pickles.whole(path)
    except OSError:
        return False


def _judge_even(folder: Folder, optim: dict[int, str], findings: Findings) -> None:
    sizes = {name: folder.files[name] for name in optim.values() if folder.files[name]}
    if len(sizes) < 2:
        return
    small, large = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    if sizes[large] > sizes[small] * UNEVEN and sizes[large] - sizes[small] > UNEVEN_BYTES:
        findings.warn("partition", "uneven", small, size=sizes[small], largest=sizes[large])


def _judge_fsdp(folder: Folder, findings: Findings) -> None:
    by_folder: dict[str, list[str]] = {}
    for name in folder.files:
        below, _, file = name.rpartition("/")
        if _DISTCP.fullmatch(file):
            by_folder.setdefault(f"{below}/" if below else "", []).append(name)
    for below, names in by_folder.items():
        if f"{below}.metadata" not in folder.files:
            findings.fail("partition", "no-metadata", below.rstrip("/") or ".")
        for name in names:
            if folder.files[name] == 0:
                findings.fail("partition", "empty", name)
        ranks = {int(match[1]) for n in names if (match := _DISTCP.fullmatch(n.rsplit("/", 1)[-1]))}
        for rank in range(max(ranks) + 1):
            if rank not in ranks:
                findings.fail("partition", "rank-missing", f"rank {rank}", world=max(ranks) + 1)
    findings.settle("partition", world=max((len(n) for n in by_folder.values()), default=1), stage=None)


def _files(folder: Folder, where: str, pattern: re.Pattern[str]) -> dict[re.Match[str], str]:
    found = {}
    for name in folder.files:
        if name.startswith(where) and (match := pattern.fullmatch(name[len(where) :])):
            found[match] = name
    return found


def _ranks(folder: Folder, where: str, pattern: re.Pattern[str]) -> dict[int, str]:
    return {int(match[1]): name for match, name in _files(folder, where, pattern).items()}


def _told(folder: Folder, where: str) -> dict[str, int]:
    """What the opcodes of a model state and of an optimizer state tell."""
    found: dict[str, int] = {}
    for patterns, keys in (
        ((_SHARDED_MODEL, _MODEL), ("dp_world_size",)),
        ((_OPTIM,), ("zero_stage", "partition_count")),
    ):
        names = sorted(name for p in patterns for name in _files(folder, where, p).values() if folder.files[name])
        if names:
            found |= pickles.numbers(folder.path / names[0], keys)
    return found


def _world_size(folder: Folder, where: str, told: dict[str, int]) -> int:
    """How many ranks wrote this: the largest number that any source gives."""
    ranks = [*_ranks(folder, where, _OPTIM), *_ranks(folder, where, _SHARDED_MODEL), *_ranks(folder, "", _RNG)]
    # a number in a foreign pickle may be anything: one that no folder could hold is not believed
    numbers = [told.get(key, 0) for key in ("dp_world_size", "partition_count")]
    return max([max(ranks, default=-1) + 1, *(n for n in numbers if 0 < n <= 100_000)])
