"""Each key of a user's DeepSpeed file by itself: is it one, does it stand in its place, is its value of the right kind?

Judged against the installed DeepSpeed's own schema (`contract/schema`). DeepSpeed refuses unknown keys in blocks that
have a model and passes over them everywhere else, so a key that is close to a known one, or known elsewhere, is an
error in both: it would do nothing, and whoever wrote it does not know.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from typing import Any

from zeroboard.contract.given import json_kind, shown
from zeroboard.contract.problems import Problem, Scalar, Severity
from zeroboard.contract.schema import Schema, SchemaKey

ZERO = "zero_optimization"
FILLED = frozenset({
    "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping",
    "fp16.enabled", "bf16.enabled",
    "optimizer.params.lr", "optimizer.params.betas", "optimizer.params.eps", "optimizer.params.weight_decay",
    "scheduler.params.warmup_min_lr", "scheduler.params.warmup_max_lr", "scheduler.params.warmup_num_steps",
    "scheduler.params.total_num_steps",
    f"{ZERO}.reduce_bucket_size", f"{ZERO}.stage3_prefetch_bucket_size",
    f"{ZERO}.stage3_param_persistence_threshold",
})  # fmt: skip
"""Keys whose `auto` the Trainer fills (`HfTrainerDeepSpeedConfig`, transformers 5.24)."""
DECISIVE = ("stage", "device", "enabled")
"""Last names of keys that may not be left to DeepSpeed's default in silence."""

LIMITS: dict[str, tuple[float | None, float | None, float | None]] = {
    "train_batch_size": (1, None, 10**9),
    "train_micro_batch_size_per_gpu": (1, None, 10**6),
    "gradient_accumulation_steps": (1, None, 10**6),
    "steps_per_print": (1, None, None),
    "gradient_clipping": (0, None, None),
    "gradient_predivide_factor": (None, 0, None),
    "fp16.loss_scale": (0, None, None),
    "fp16.initial_scale_power": (0, None, 64),
    "fp16.loss_scale_window": (1, None, None),
    "fp16.hysteresis": (1, None, None),
    "fp16.min_loss_scale": (1, None, None),
    f"{ZERO}.allgather_bucket_size": (1, None, None),
    f"{ZERO}.reduce_bucket_size": (1, None, None),
    f"{ZERO}.sub_group_size": (1, None, None),
    f"{ZERO}.offload_optimizer.buffer_count": (1, None, None),
    f"{ZERO}.offload_param.buffer_count": (1, None, None),
    f"{ZERO}.offload_param.buffer_size": (1, None, None),
    "aio.block_size": (1, None, None),
    "aio.queue_depth": (1, None, None),
    "aio.intra_op_parallelism": (1, None, None),
    "optimizer.params.lr": (None, 0, 10),
    "optimizer.params.eps": (0, None, 1),
    "optimizer.params.weight_decay": (0, None, None),
    "scheduler.params.warmup_num_steps": (1, None, None),
    "scheduler.params.total_num_steps": (1, None, None),
    "scheduler.params.warmup_min_lr": (0, None, 10),
    "scheduler.params.warmup_max_lr": (None, 0, 10),
    "scheduler.params.warmup_min_ratio": (0, None, 1),
    "scheduler.params.cos_min_ratio": (0, None, 1),
}
"""(least, above, most) where DeepSpeed has no bound of its own, or one that its code does not stand."""
MOST = 10**15
"""Of any whole number: beyond every size that a file could mean."""

_NUMBERS: dict[str, SchemaKey] = {
    **dict.fromkeys(("lr", "eps", "weight_decay", "warmup_min_lr", "warmup_max_lr", "warmup_min_ratio"),
                    SchemaKey(kind="number")),
    "cos_min_ratio": SchemaKey(kind="number"),
    "betas": SchemaKey(kind="list"),
    **dict.fromkeys(("warmup_num_steps", "total_num_steps"), SchemaKey(kind="integer")),
    "warmup_type": SchemaKey(kind="text", choices=("log", "linear")),
}  # fmt: skip
"""Kinds of the parameters of optimizer and scheduler, which have no model."""


def judge_keys(value: Mapping[str, Any], schema: Schema) -> tuple[Problem, ...]:
    """Everything that is wrong with single keys, in the order of the file."""
    return tuple(_walk(value, schema, "", strict=False))


def _walk(value: Mapping[str, Any], schema: Schema, prefix: str, *, strict: bool) -> Iterator[Problem]:
    for key, given in value.items():
        path = prefix + key
        facts = schema.keys.get(path)
        if path in schema.removed:
            yield _about("deprecated-key", path, "removed", why=schema.removed[path])
        elif facts is None:
            yield _unknown(path, value, schema, strict=strict)
        elif facts.deprecated:
            yield _deprecated(path, facts, value, schema)
        else:
            yield from _value(path, given, facts, schema)


def _value(path: str, given: Any, facts: SchemaKey, schema: Schema) -> Iterator[Problem]:
    if given == "auto":
        yield from _auto(path, facts)
    elif given is None:
        if not facts.optional and facts.kind != "any":
            yield _wrong(path, given, facts)
    elif path in ("optimizer.params", "scheduler.params") and isinstance(given, dict):
        yield from _params(path, given, schema)
    elif facts.kind == "object" and isinstance(given, dict):
        if not facts.open:
            yield from _walk(given, schema, f"{path}.", strict=facts.strict)
    elif path == ZERO and isinstance(given, bool):
        yield _about("deprecated-key", path, "switch")
    else:
        yield from _single(path, given, facts)


def _params(path: str, given: Mapping[str, Any], schema: Schema) -> Iterator[Problem]:
    """Parameters of optimizer and scheduler; whether their type takes them is judged with the type."""
    for key, one in given.items():
        facts = _NUMBERS.get(key)
        if facts is not None:
            yield from _value(f"{path}.{key}", one, facts, schema)


def _single(path: str, given: Any, facts: SchemaKey) -> Iterator[Problem]:
    if not _fits(given, facts):
        yield _wrong(path, given, facts)
        return
    if path.endswith(".betas") and not _betas(given):
        yield _about("value-range", path, "file-betas", value=shown(given, quoted=True))
    if facts.choices and _word(given) not in facts.choices:
        yield _about("value-range", path, "choice", value=shown(given, quoted=True), choices=", ".join(facts.choices))
    if isinstance(given, int | float) and not isinstance(given, bool):
        bounds = _bounds(path, facts)
        if not _within(given, *bounds) or (isinstance(given, float) and not math.isfinite(given)):
            yield _about("value-range", path, None, value=shown(given, quoted=True), bounds=_signs(*bounds))


def _fits(given: Any, facts: SchemaKey) -> bool:
    """Whether the value is of the kind; a whole number may be written as 5e8."""
    number = isinstance(given, int | float) and not isinstance(given, bool)
    match facts.kind:
        case "switch":
            return isinstance(given, bool)
        case "integer":
            return number and (isinstance(given, int) or not math.isfinite(given) or given.is_integer())
        case "number":
            return number
        case "text":
            return isinstance(given, str)
        case "list":
            return isinstance(given, list)
        case "object":
            return isinstance(given, dict)
        case "any":
            return True


def _word(given: Any) -> str:
    """A choice as the schema writes it: `3`, also where a file says 3.0."""
    return str(int(given)) if isinstance(given, float) and given.is_integer() else str(given)


def _betas(given: list[Any]) -> bool:
    return len(given) == 2 and all(isinstance(b, int | float) and not isinstance(b, bool) and 0 <= b < 1 for b in given)


_Bounds = tuple[float | None, float | None, float | None, float | None]


def _bounds(path: str, facts: SchemaKey) -> _Bounds:
    """(least, above, most, below): DeepSpeed's own, and ours where they are narrower."""
    least, above, most = LIMITS.get(path, (None, None, None))
    if facts.kind == "integer" and most is None:
        most = MOST
    return (
        max((x for x in (least, facts.ge) if x is not None), default=None),
        max((x for x in (above, facts.gt) if x is not None), default=None),
        min((x for x in (most, facts.le) if x is not None), default=None),
        facts.lt,
    )


def _within(given: float, least: float | None, above: float | None, most: float | None, below: float | None) -> bool:
    return (
        (least is None or given >= least)
        and (above is None or given > above)
        and (most is None or given <= most)
        and (below is None or given < below)
    )


def _signs(least: float | None, above: float | None, most: float | None, below: float | None) -> str:
    pairs = (("≥", least), (">", above), ("≤", most), ("<", below))
    return ", ".join(f"{sign} {limit:.12g}" for sign, limit in pairs if limit is not None) or "finite"


def _auto(path: str, facts: SchemaKey) -> Iterator[Problem]:
    if facts.auto or path in FILLED:
        return
    severity: Severity = "error" if path.rpartition(".")[2] in DECISIVE else "warning"
    yield _about("auto-unresolved", path, None, severity=severity)


def _unknown(path: str, beside: Mapping[str, Any], schema: Schema, *, strict: bool) -> Problem:
    name = path.rpartition(".")[2]
    prefix = path[: len(path) - len(name)]
    elsewhere = sorted(known for known in schema.keys if known.rpartition(".")[2] == name)
    if 0 < len(elsewhere) <= 3:
        return _about("misplaced-key", path, None, place=elsewhere[0])
    siblings = [k for k in schema.keys if k.startswith(prefix) and "." not in k[len(prefix) :] and k not in beside]
    near = difflib.get_close_matches(path, siblings, n=1, cutoff=0.75)
    if not near:
        names = {known.rpartition(".")[2]: known for known in sorted(schema.keys, reverse=True)}
        near = [names[found] for found in difflib.get_close_matches(name, names, n=1, cutoff=0.85)]
    if near:
        return _about("unknown-key", path, "file-nearest", nearest=near[0])
    return _about("unknown-key", path, "file", severity="error" if strict else "warning")


def _deprecated(path: str, facts: SchemaKey, beside: Mapping[str, Any], schema: Schema) -> Problem:
    new = new_name(path, facts, schema)
    if new is None:
        return _about("deprecated-key", path, "file", severity="warning")
    if new.rpartition(".")[2] in beside:
        return _about("deprecated-key", path, "both", new=new)
    return _about("deprecated-key", path, None, severity="warning", new=new)


def new_name(path: str, facts: SchemaKey, schema: Schema) -> str | None:
    """The dotted path of what replaces a deprecated key, under the name that users know; None where it has none."""
    if facts.replaced_by is None:
        return None
    prefix = path[: len(path) - len(path.rpartition(".")[2])]
    for name in (f"{prefix}stage3_{facts.replaced_by}", prefix + facts.replaced_by):
        if name in schema.keys:
            return name
    return None


def _wrong(path: str, given: Any, facts: SchemaKey) -> Problem:
    kind = "object" if facts.kind == "object" else "choice" if facts.choices else facts.kind
    variant = {"object": "file-object", "choice": "file-choice"}.get(kind, kind)
    choices = ", ".join(facts.choices) or None
    return _about("wrong-type", path, variant, value=shown(given, quoted=True), found=json_kind(given), choices=choices)


def _about(code: str, path: str, variant: str | None, *, severity: Severity = "error", **params: Scalar) -> Problem:
    says = f"problem.{code}.{variant}" if variant is not None else None
    return Problem(code=code, severity=severity, field=path[:120], says=says, params={"key": path[:120], **params})
