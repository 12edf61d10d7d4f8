"""What each parameter of a ZeRO checkpoint is made of: pure arithmetic on names, shapes and sizes, without torch.

Stages 1 and 2 lay all parameters of a group behind one another and cut the whole into one part a rank, so a parameter
may lie across two ranks. Stage 3 cuts every parameter into one part a rank, padded at the end. What was frozen lies
beside the model states (in parts too under stage 3). Covered: padding between partitions and between parameters,
several groups, shared parameters, buffers, states of several saves (refused). Source: DeepSpeed 0.19.8,
`runtime/zero/stage_1_and_2.py`, `stage3.py`, `utils/zero_to_fp32.py`; tests compare with the latter's tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from zeroboard.contract.problems import Problem, Scalar
from zeroboard.errors import Refused

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelState:
    """What one file of model states says."""

    file: str
    groups: tuple[Mapping[str, Shape], ...]
    """Trained parameters in the order in which they lie in each group."""
    frozen: Mapping[str, Shape]
    fragments: Mapping[str, int]
    """Frozen parameter → elements of it that lie here."""
    whole: Mapping[str, Shape]
    """Tensors of the module that are whole here: buffers, and under stages 1 and 2 all parameters."""
    buffers: frozenset[str]
    shared: Mapping[str, str]
    """Name that is not stored → name that holds its data."""
    world: int | None
    step: int | None
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimState:
    """What one file of optimizer states says."""

    file: str
    stage: int
    counts: tuple[int, ...]
    """Ranks that share each group."""
    groups: tuple[int, ...]
    """Elements of the master weights here, for each group."""
    paddings: tuple[tuple[int, ...], ...] | None
    """Elements between parameters, for each group and parameter."""
    step: int | None
    version: str | None


Where = Literal["master", "fragment", "module"]


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of one flat tensor in one file."""

    where: Where
    rank: int
    key: int | str
    """Number of the group, or name of the tensor."""
    start: int
    count: int
    """Elements."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A tensor of the model: its parts one behind the other, in row-major order."""

    name: str
    shape: Shape
    parts: tuple[Part, ...]
    trained: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """All tensors of a checkpoint."""

    parameters: tuple[Parameter, ...]
    shared: Mapping[str, str]
    stage: int
    world: int
    step: int | None
    version: str | None


def make_plan(models: Sequence[ModelState], optim: Sequence[OptimState], *, sharded: bool) -> Plan:
    """What each parameter is made of; files in the order of their ranks. Raises `Refused` with all that disagrees.

    `sharded`: each rank wrote model states of its own, as stage 3 does.
    """
    problems = [*_judge_same(models, optim), *_judge_counts(models, optim, sharded)]
    if problems:
        raise Refused(problems)
    first, stage, world = models[0], optim[0].stage, len(optim)
    trained = _stage3(first, optim) if stage == 3 else _stage2(first, optim)
    parameters = {p.name: p for p in trained if isinstance(p, Parameter)}
    problems = [p for p in trained if isinstance(p, Problem)]
    for found in _frozen(models, world if stage == 3 else 1):
        if isinstance(found, Problem):
            problems.append(found)
        else:
            parameters.setdefault(found.name, found)
    if problems:
        raise Refused(problems)
    for name, shape in first.whole.items():
        known = name in parameters or name in first.shared
        if not known and (stage < 3 or name in first.buffers):
            part = Part("module", 0, name, 0, math.prod(shape))
            parameters[name] = Parameter(name, shape, (part,), trained=False)
    return Plan(tuple(parameters.values()), first.shared, stage, world, first.step, first.version)


def _judge_same(models: Sequence[ModelState], optim: Sequence[OptimState]) -> Iterator[Problem]:
    """All files are of one save, as far as they tell."""
    told: dict[str, tuple[str, Scalar]] = {}
    states: list[ModelState | OptimState] = [*models, *optim]
    for state in states:
        for field, value in _told(state):
            if value is None:
                continue
            file, expected = told.setdefault(field, (state.file, value))
            if value != expected:
                yield _problem(
                    "checkpoint-mixed",
                    "field",
                    file=state.file,
                    other=file,
                    field=field,
                    value=value,
                    expected=expected,
                )
    for state in models[1:]:
        if state.groups != models[0].groups or state.frozen != models[0].frozen:
            yield _problem("checkpoint-mixed", "shapes", file=state.file, other=models[0].file)


def _told(state: ModelState | OptimState) -> Iterator[tuple[str, Scalar]]:
    yield "ds_version", state.version
    if isinstance(state, ModelState):
        yield "dp_world_size", state.world
        yield "global_steps", state.step
    else:
        yield "zero_stage", state.stage
        yield "partition_count", ", ".join(map(str, state.counts))
        yield "step", state.step
        yield "groups", len(state.groups)


def _judge_counts(models: Sequence[ModelState], optim: Sequence[OptimState], sharded: bool) -> Iterator[Problem]:
    stage, world = optim[0].stage, len(optim)
    if stage not in (1, 2, 3):
        yield _problem("checkpoint-unsupported", "stage", file=optim[0].file, stage=stage)
    elif sharded != (stage == 3):
        yield _problem("checkpoint-mixed", "stage", stage=stage, file=models[0].file)
    for state in optim:
        if len(set(state.counts)) > 1:
            yield _problem("checkpoint-unsupported", "experts", file=state.file)
        elif state.counts and state.counts[0] != world:
            yield _problem("checkpoint-mixed", "count", file=state.file, told=state.counts[0], found=world)
    if sharded and len(models) != world:
        yield _problem("checkpoint-mixed", "count", file=models[0].file, told=world, found=len(models))
    if stage < 3 and len(optim[0].groups) != len(models[0].groups):
        yield _sizes("param_shapes", len(models[0].groups), len(optim[0].groups))


def _stage2(model: ModelState, optim: Sequence[OptimState]) -> list[Parameter | Problem]:
    """Each group is one vector, cut into ranks wherever the cut falls."""
    found: list[Parameter | Problem] = []
    align = 2 * len(optim)
    for number, shapes in enumerate(model.groups):
        sizes = [state.groups[number] for state in optim]
        paddings = optim[0].paddings[number] if optim[0].paddings else (0,) * len(shapes)
        if len(paddings) != len(shapes):
            found.append(_sizes("param_alignment_paddings", len(shapes), len(paddings)))
            continue
        at = 0
        for (name, shape), padding in zip(shapes.items(), paddings, strict=True):
            count = math.prod(shape)
            found.append(Parameter(name, shape, tuple(_cut(number, sizes, at, count)), trained=True))
            at += count + padding
        # DeepSpeed pads the end of a group to a multiple of twice the ranks and keeps it or not
        if _aligned(at, align) != _aligned(sum(sizes), align) or at > _aligned(sum(sizes), align):
            found.append(_sizes(f"param_shapes[{number}]", at, sum(sizes)))
    return found


def _stage3(model: ModelState, optim: Sequence[OptimState]) -> list[Parameter | Problem]:
    """Each parameter is cut into equal parts; the last ones are padded."""
    world, at = len(optim), 0
    found: list[Parameter | Problem] = []
    for name, shape in ((n, s) for group in model.groups for n, s in group.items()):
        count = math.prod(shape)
        part = -(-count // world)
        parts: list[Part] = []
        for rank, state in enumerate(optim):
            here = min(part, count - rank * part)
            parts += [Part("master", rank, p.key, p.start, p.count) for p in _spread(state.groups, at, here)]
        found.append(Parameter(name, shape, tuple(parts), trained=True))
        at += part
    found += [_sizes(state.file, at, sum(state.groups)) for state in optim if sum(state.groups) != at]
    return found


def _frozen(models: Sequence[ModelState], world: int) -> Iterator[Parameter | Problem]:
    """Frozen parameters: whole in the one file, or a part in the file of each rank."""
    for name, shape in models[0].frozen.items():
        count = math.prod(shape)
        part = -(-count // world)
        parts = []
        for rank, state in enumerate(models[:world]):
            have = state.fragments.get(name, 0)
            if have != part:
                yield _sizes(f"{state.file}: {name}", part, have)
            if (here := min(part, count - rank * part)) > 0:
                parts.append(Part("fragment", rank, name, 0, here))
        yield Parameter(name, shape, tuple(parts), trained=False)


def _cut(group: int, sizes: Sequence[int], at: int, count: int) -> Iterator[Part]:
    """Where a stretch of a vector lies that was cut into ranks."""
    for part in _spread(sizes, at, count):
        yield Part("master", int(part.key), group, part.start, part.count)


def _spread(sizes: Sequence[int], at: int, count: int) -> Iterator[Part]:
    """A stretch of a vector that lies in boxes of these sizes: `key` is the number of the box."""
    for box, size in enumerate(sizes):
        if count <= 0:
            return
        if at < size:
            here = min(count, size - at)
            yield Part("master", 0, box, at, here)
            count -= here
            at = 0
        else:
            at -= size


def _aligned(count: int, to: int) -> int:
    return -(-count // to) * to


def _sizes(name: str, wanted: int, have: int) -> Problem:
    return _problem("checkpoint-damaged", "sizes", name=name, wanted=wanted, have=have)


def _problem(code: str, what: str, **params: Scalar) -> Problem:
    return Problem(code=code, says=f"problem.{code}.{what}", params=params)
