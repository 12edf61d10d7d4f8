"""Reads DeepSpeed's states: mapped into memory and not copied, with `weights_only` and an exact list of classes.

The four classes that DeepSpeed pickles beside tensors are not imported; empty classes stand in for them, so no code of
anybody's runs while a state is read, and DeepSpeed need not be installed. What has not the form that DeepSpeed writes
is refused by name; nothing in a state is believed.
"""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from zeroboard.checkpoints.consolidate import ALLOWED_CLASSES, SIZES, SWAPPED
from zeroboard.checkpoints.consolidate_layout import ModelState, OptimState, Part, Shape
from zeroboard.checkpoints.findings import printable
from zeroboard.contract.problems import Problem
from zeroboard.errors import Refused
from zeroboard.files import read_json

TRUSTED_WHY = 300
"""Characters of a library's message that are shown."""


@dataclass(frozen=True, slots=True)
class Tensors:
    """The tensors of a checkpoint, mapped from their files."""

    master: tuple[tuple[torch.Tensor, ...], ...]
    """For each rank and group: one flat tensor."""
    fragments: tuple[Mapping[str, torch.Tensor], ...]
    module: Mapping[str, torch.Tensor]

    def flat(self, part: Part) -> torch.Tensor:
        """The stretch of a flat tensor that a part names."""
        if part.where == "master":
            found = self.master[part.rank][int(part.key)]
        elif part.where == "fragment":
            found = self.fragments[part.rank][str(part.key)]
        else:
            found = self.module[str(part.key)]
        return found.reshape(-1)[part.start : part.start + part.count]


class Foreign(Exception):
    """A state is not laid out as DeepSpeed writes it; the text names the field."""


def read_states(
    models: tuple[Path, ...], optim: tuple[Path, ...], on_file: Callable[[int, int], None]
) -> tuple[list[ModelState], list[OptimState], Tensors]:
    """All states, in the order given. `on_file` is told which file comes, of how many. Raises `Refused` with all."""
    problems: list[Problem] = []
    model_states: list[ModelState] = []
    optim_states: list[OptimState] = []
    master: list[tuple[torch.Tensor, ...]] = []
    fragments: list[Mapping[str, torch.Tensor]] = []
    module: Mapping[str, torch.Tensor] = {}
    total = len(models) + len(optim)
    for number, path in enumerate((*models, *optim)):
        on_file(number, total)
        try:
            if number < len(models):
                state, tensors, held = _model_state(path)
                model_states.append(state)
                fragments.append(held)
                module = module or tensors
            else:
                optimizer, groups = _optim_state(path, number - len(models))
                optim_states.append(optimizer)
                master.append(groups)
        except Refused as refused:
            problems += refused.problems
        except Foreign as foreign:
            problems.append(_damaged("layout", path, what=printable(str(foreign))))
    if problems:
        raise Refused(problems)
    return model_states, optim_states, Tensors(tuple(master), tuple(fragments), module)


def load_state(path: Path) -> dict[str, Any]:
    """The dictionary in a file, its tensors mapped. Raises `Refused`: damaged, or a class that is not on the list."""
    try:
        with torch.serialization.safe_globals(_STAND_INS):
            found = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except pickle.UnpicklingError as error:
        raise Refused([_damaged("refused", path, why=_short(error), code="unsafe-pickle")]) from error
    except Exception as error:  # a hostile file makes the reader raise whatever it likes, and that is the finding
        raise Refused([_damaged("unreadable", path, why=_short(error))]) from error
    if not isinstance(found, dict):
        raise Refused([_damaged("layout", path, what=type(found).__name__)])
    return found


def _stand_in(name: str) -> tuple[Any, str]:
    """An empty class under another class's name: it takes what it is given and does nothing."""

    def init(self: Any, *values: object) -> None:
        self.values = values

    return type(name.rsplit(".", 1)[-1], (), {"__init__": init, "__module__": __name__}), name


_STAND_INS: list[Any] = [_stand_in(name) for name in ALLOWED_CLASSES]


def _model_state(path: Path) -> tuple[ModelState, Mapping[str, torch.Tensor], Mapping[str, torch.Tensor]]:
    found = load_state(path)
    module = {str(k): v for k, v in _dict(found, "module").items() if isinstance(v, torch.Tensor)}
    fragments = {str(k): v for k, v in _optional(found, "frozen_param_fragments").items()}
    groups = found.get("param_shapes")
    if not isinstance(groups, list) or not all(isinstance(g, dict) for g in groups):
        raise Foreign("param_shapes")
    shared = _dict(found, "shared_params")
    for name, tensor in fragments.items():
        if not isinstance(tensor, torch.Tensor):
            raise Foreign(f"frozen_param_fragments[{name}]")
    state = ModelState(
        file=path.name,
        groups=tuple(_shapes(group, "param_shapes") for group in groups),
        frozen=_shapes(_optional(found, "frozen_param_shapes"), "frozen_param_shapes"),
        fragments={str(name): tensor.numel() for name, tensor in fragments.items()},
        whole={str(name): tuple(tensor.shape) for name, tensor in module.items() if tensor.numel()},
        buffers=frozenset(str(name) for name in _listed(found, "buffer_names")),
        shared={str(name): str(holder) for name, holder in shared.items()},
        world=_whole_number(found.get("dp_world_size")),
        step=_whole_number(found.get("global_steps")),
        version=_text(found.get("ds_version")),
    )
    return state, module, fragments


def _optim_state(path: Path, rank: int) -> tuple[OptimState, tuple[torch.Tensor, ...]]:
    found = load_state(path)
    inner = _dict(found, "optimizer_state_dict")
    stage = _enum(inner.get("zero_stage"))
    key = "fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"
    groups = inner.get(key)
    if not isinstance(groups, list | tuple) or not groups:
        raise Foreign(key)
    for group in groups:
        if not isinstance(group, torch.Tensor) or group.dim() != 1 or not group.is_contiguous():
            raise Foreign(f"{key}: {type(group).__name__}")
    groups = [_swapped_in(group, path, rank) for group in groups]
    count = inner.get("partition_count")
    counts = count if isinstance(count, list) else [count]
    paddings = None if inner.get("param_alignment_paddings") is None else _listed(inner, "param_alignment_paddings")
    state = OptimState(
        file=path.name,
        stage=stage,
        counts=tuple(_count(n, "partition_count") for n in counts),
        groups=tuple(group.numel() for group in groups),
        paddings=None if paddings is None else tuple(_counts(p, "param_alignment_paddings") for p in paddings),
        step=_adam_step(inner),
        version=_text(found.get("ds_version")),
    )
    return state, tuple(groups)


def _swapped_in(group: torch.Tensor, path: Path, rank: int) -> torch.Tensor:
    """A group's master weights: themselves, or mapped from the file that they were swapped to (NVMe offload).

    Raises `Refused` where the file is missing or short, or nothing tells how much of it counts.
    """
    name, folder = getattr(group, "ds_id", None), path.parent / SWAPPED / f"rank{rank:02d}"
    if group.numel() or not isinstance(name, str) or not re.fullmatch(r"\d+_\d+", name) or not folder.is_dir():
        return group
    try:
        sizes = read_json(folder / SIZES)
    except (OSError, ValueError):
        sizes = None
    count = sizes.get(name) if isinstance(sizes, dict) else None
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise Refused([_damaged("swapped", path, code="checkpoint-unsupported")])
    file = folder / f"{name}.tensor.swp"
    whole = file.is_file() and not file.is_symlink() and file.stat().st_size >= count * group.element_size()
    if not whole:
        raise Refused([_damaged("swapped", file)])
    return torch.from_file(str(file), shared=False, size=count, dtype=group.dtype)


def _adam_step(inner: Mapping[str, Any]) -> int | None:
    """How many steps the optimizer has made, where it counts them."""
    for key in ("base_optimizer_state", "optimizer_state_dict"):
        states = inner.get(key)
        states = states.get("state") if isinstance(states, dict) else None
        first = next(iter(states.values()), None) if isinstance(states, dict) else None
        step = first.get("step") if isinstance(first, dict) else None
        if isinstance(step, torch.Tensor) and step.numel() == 1 and math.isfinite(step.item()):
            return int(step.item())
        if isinstance(step, int):
            return step
    return None


def _enum(value: Any) -> int:
    """The number in a `ZeroStageEnum`, or a plain one."""
    values = getattr(value, "values", (value,))
    return _count(values[0] if isinstance(values, tuple) and values else None, "zero_stage")


def _dict(found: Mapping[str, Any], key: str) -> dict[Any, Any]:
    value = found.get(key)
    if not isinstance(value, dict):
        raise Foreign(key)
    return value


def _optional(found: Mapping[str, Any], key: str) -> dict[Any, Any]:
    return {} if found.get(key) is None else _dict(found, key)


def _listed(found: Mapping[str, Any], key: str) -> Iterable[Any]:
    value = () if found.get(key) is None else found[key]
    if not isinstance(value, list | tuple | set):
        raise Foreign(key)
    return value


def _shapes(shapes: Mapping[Any, Any], field: str) -> dict[str, Shape]:
    return {str(name): _counts(shape, f"{field}[{name}]") for name, shape in shapes.items()}


def _counts(values: Any, field: str) -> tuple[int, ...]:
    if not isinstance(values, list | tuple):
        raise Foreign(field)
    return tuple(_count(value, field) for value in values)


def _count(value: Any, field: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Foreign(field)
    return int(value)


def _whole_number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return printable(value) if isinstance(value, str) else None


def _short(error: Exception) -> str:
    return printable(f"{type(error).__name__}: {error}")[:TRUSTED_WHY]


def _damaged(what: str, path: Path, /, *, code: str = "checkpoint-damaged", **params: str) -> Problem:
    return Problem(code=code, says=f"problem.{code}.{what}", params={"file": printable(path.name), **params})
