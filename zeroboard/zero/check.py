"""A user's DeepSpeed file, judged as a whole: keys one by one (`keys`), then what they mean together.

Sources: `DeepSpeedConfig`, `DeepSpeedEngine._configure_basic_optimizer` and `zero/stage3.py` of DeepSpeed 0.19;
`transformers/integrations/deepspeed.py` 5.24; `Accelerator._prepare_deepspeed` of accelerate 1.15.
Covered: what can be told from the file and the folders it names. Not covered: the model, the machine and the number of
ranks; the plan judges those once the values stand in its fields.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from zeroboard.contract.folders import FolderFacts
from zeroboard.contract.problems import Problem, Scalar, Severity
from zeroboard.contract.schema import Schema
from zeroboard.zero.keys import ZERO, judge_keys
from zeroboard.zero.swap import in_system, judge_swap

BATCH, MICRO, ACCUMULATION = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
PATHS = ("path", "dir", "file")
"""Endings of keys whose value is a place that something is written to."""


def check_file(
    value: Mapping[str, Any], schema: Schema, folders: Mapping[str, FolderFacts] | None = None
) -> tuple[Problem, ...]:
    """Every problem of a file, errors first. `folders`: what is known of the paths that it swaps to."""
    found = [*judge_keys(value, schema)]
    for rule in RULES:
        found += rule(value, schema)
    found += _swaps(value, folders or {})
    kept = {(problem.code, problem.field, problem.says): problem for problem in found}.values()
    return tuple(sorted(kept, key=lambda p: ("error", "warning", "info").index(p.severity)))


def swap_paths(value: Mapping[str, Any]) -> tuple[str, ...]:
    """The paths that offload swaps to, as they are written."""
    found = (block.get("nvme_path") for _, block in _offloads(value) if block.get("device") == "nvme")
    return tuple(dict.fromkeys(path for path in found if isinstance(path, str) and path.strip()))


def stage_of(value: Mapping[str, Any]) -> int:
    """The stage as DeepSpeed takes it; 0 where none is given, or none that is one."""
    stage = _block(value, ZERO).get("stage", 0)
    whole = isinstance(stage, int | float) and not isinstance(stage, bool) and stage in (0, 1, 2, 3)
    return int(stage) if whole else 0


def _block(value: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """A block inside; empty where it is not there or is none."""
    found: Any = value
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _offloads(value: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in ("offload_optimizer", "offload_param"):
        yield name, _block(value, ZERO, name)


def _moves(block: Mapping[str, Any]) -> bool:
    return block.get("device") in ("cpu", "nvme")


def _problem(
    code: str, field: str, variant: str | None = None, *, severity: Severity = "error", **params: Scalar
) -> Problem:
    says = f"problem.{code}.{variant}" if variant is not None else None
    return Problem(code=code, severity=severity, field=field, says=says, params={"key": field, **params})


def _number(value: Mapping[str, Any], key: str) -> int | None:
    """A whole number above 0; None where there is none (that it is none is told elsewhere)."""
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < 10**12 or found != int(found):
        return None
    return int(found)


def batch(value: Mapping[str, Any], schema: Schema) -> list[Problem]:
    """Whether there is a number of ranks with which the three agree."""
    total, micro, passes = (_number(value, key) for key in (BATCH, MICRO, ACCUMULATION))
    if total is None:
        if BATCH not in value and MICRO not in value:
            return [_problem("batch-mismatch", BATCH, "file-none")]
        return []
    step = (micro or 1) * (passes or 1)
    if total % step:
        return [_problem("batch-mismatch", BATCH, "file", total=total, micro=micro or 1, accumulation=passes or 1)]
    return []


def precision(value: Mapping[str, Any], schema: Schema) -> list[Problem]:
    """Both at once."""
    on = [name for name in ("bf16", "fp16", "bfloat16") if _block(value, name).get("enabled") is True]
    return [_problem("precision-conflict", "bf16.enabled", "file")] if {"fp16"} < set(on) else []


def stages(value: Mapping[str, Any], schema: Schema) -> list[Problem]:
    """What each stage can offload."""
    stage, found = stage_of(value), []
    optimizer, parameters = _block(value, ZERO, "offload_optimizer"), _block(value, ZERO, "offload_param")
    field = f"{ZERO}.offload_optimizer"
    if _moves(optimizer) and stage == 0:
        found.append(_problem("offload-needs-stage", field, "file", stage="2"))
    elif optimizer.get("device") == "nvme" and stage < 3:
        found.append(_problem("offload-needs-stage", f"{field}.device", "nvme", stage=stage))
    ratio = optimizer.get("ratio", 1.0)
    if _moves(optimizer) and isinstance(ratio, int | float) and ratio < 1 and stage < 3:
        found.append(_problem("offload-needs-stage", f"{field}.ratio", "ratio", stage=stage))
    if _moves(parameters) and stage < 3:
        found.append(_problem("offload-needs-stage", f"{ZERO}.offload_param", "file-param", stage=stage))
    elif _moves(parameters) and not _moves(optimizer):
        found.append(_problem("offload-optimizer", f"{ZERO}.offload_param", "alone"))
    return found


def gather(value: Mapping[str, Any], schema: Schema) -> list[Problem]:
    """Stage 3 without weights that anything could load."""
    if stage_of(value) != 3:
        return []
    zero = _block(value, ZERO)
    names = ("stage3_gather_16bit_weights_on_model_save", "gather_16bit_weights_on_model_save",
             "stage3_gather_fp16_weights_on_model_save")  # fmt: skip
    given = [zero[name] for name in names if name in zero]
    if True in given:
        return []
    variant = "file" if given else "file-absent"
    return [_problem("gather-disabled", f"{ZERO}.{names[0]}", variant, severity="warning")]


def optimizers(value: Mapping[str, Any], schema: Schema) -> list[Problem]:
    """An optimizer that there is, that ZeRO takes, and that can compute where its states lie."""
    block, found = _block(value, "optimizer"), []
    offloads = any(_moves(b) for _, b in _offloads(value))
    if offloads and value.get("zero_force_ds_cpu_optimizer") is False:
        found.append(_problem("offload-optimizer", "zero_force_ds_cpu_optimizer", "forced", severity="warning"))
    if "optimizer" not in value:
        return found
    name = block.get("type")
    if not isinstance(name, str):
        return [*found, _problem("optimizer-conflict", "optimizer.type", "none")]
    known = name.lower() in schema.optimizers or name in schema.torch_optimizers
    if not known:
        near = difflib.get_close_matches(name, [*schema.torch_optimizers, "AdamW", "Adam", "Lamb", "Lion"], n=1)
        nearest = near[0] if near else "AdamW"
        return [*found, _problem("optimizer-conflict", "optimizer.type", "unknown", name=name[:60], nearest=nearest)]
    params = _block(block, "params")
    if "max_grad_norm" in params:
        found.append(_problem("optimizer-conflict", "optimizer.params.max_grad_norm", "clipping"))
    taken = schema.optimizer_params.get(name.lower(), ())
    for key in params:
        if taken and key not in taken and key != "max_grad_norm":
            near = difflib.get_close_matches(key, taken, n=1, cutoff=0.5)
            place = f"optimizer.params.{near[0] if near else taken[0]}"
            found.append(_problem("unknown-key", f"optimizer.params.{key}"[:120], "file-nearest", nearest=place))
    if (
        offloads
        and name.lower() not in schema.host_optimizers
        and value.get("zero_force_ds_cpu_optimizer") is not False
    ):
        names = ", ".join(schema.host_optimizers)
        found.append(_problem("offload-optimizer", "optimizer.type", "file", name=name[:60], names=names))
    elif (
        stage_of(value)
        and name.lower() not in schema.tested_optimizers
        and value.get("zero_allow_untested_optimizer") is not True
    ):
        names = ", ".join(schema.tested_optimizers)
        found.append(_problem("optimizer-conflict", "optimizer.type", "untested", name=name[:60], names=names))
    return found


def schedulers(value: Mapping[str, Any], schema: Schema) -> list[Problem]:
    """A schedule that there is, with what it needs, and that agrees with the optimizer."""
    if "scheduler" not in value:
        if _block(value, "optimizer").get("type"):
            return [_problem("scheduler-conflict", "optimizer", "absent", severity="info")]
        return []
    block = _block(value, "scheduler")
    name = block.get("type")
    names = ", ".join(schema.schedulers)
    if not isinstance(name, str) or name not in schema.schedulers:
        shown = str(name)[:60] if name is not None else "-"
        return [_problem("scheduler-conflict", "scheduler.type", "unknown", name=shown, names=names)]
    params, found = _block(block, "params"), []
    for key in params:
        if key not in schema.schedulers[name]:
            there = ", ".join(schema.schedulers[name])
            found.append(
                _problem("scheduler-conflict", f"scheduler.params.{key}"[:120], "param", name=name, names=there)
            )
    for key in schema.scheduler_needs.get(name, ()):
        if key not in params:
            found.append(_problem("scheduler-conflict", f"scheduler.params.{key}", "needs", name=name))
    highest, rate = params.get("warmup_max_lr"), _block(value, "optimizer", "params").get("lr")
    if _is_number(highest) and _is_number(rate) and highest != rate:
        field = "scheduler.params.warmup_max_lr"
        found.append(_problem("scheduler-conflict", field, "rates", highest=highest, rate=rate))
    warm, total = _number(params, "warmup_num_steps"), _number(params, "total_num_steps")
    if warm is not None and total is not None and warm > total:
        found.append(
            _problem("scheduler-conflict", "scheduler.params.warmup_num_steps", "longer", warm=warm, total=total)
        )
    return found


def _is_number(found: object) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool)


def unused(value: Mapping[str, Any], schema: Schema) -> list[Problem]:
    """Blocks that are read and change nothing, since what would use them is not there."""
    found = []
    if _block(value, "activation_checkpointing"):
        # transformers' Trainer checkpoints by torch; only models that call DeepSpeed's own function heed this block
        found.append(_problem("ignored-choice", "activation_checkpointing", "file-checkpointing", severity="warning"))
    if _block(value, ZERO).get("allgather_partitions") is False:
        # `zero_allgather_partitions` of DeepSpeed 0.19's engine is called by nothing
        field = f"{ZERO}.allgather_partitions"
        found.append(_problem("ignored-choice", field, "file-partitions", severity="warning"))
    if "aio" in value and not any(b.get("device") == "nvme" for _, b in _offloads(value)):
        found.append(_problem("ignored-choice", "aio", "file-aio", severity="warning"))
    for name, block in _offloads(value):
        if "nvme_path" in block and block.get("device") != "nvme" and block["nvme_path"] is not None:
            field = f"{ZERO}.{name}.nvme_path"
            found.append(_problem("ignored-choice", field, "file-nvme", severity="warning"))
    return found + _other_stage(value)


def _other_stage(value: Mapping[str, Any]) -> list[Problem]:
    """Keys of a stage that is not this one: DeepSpeed reads them, and heeds them nowhere."""
    stage, found = stage_of(value), []
    for key in _block(value, ZERO):
        of_three = key.startswith("stage3_") or key == "sub_group_size"
        of_lower = key in ("allgather_bucket_size", "round_robin_gradients")
        if (of_three and stage in (1, 2)) or (of_lower and stage == 3):
            field = f"{ZERO}.{key}"[:120]
            found.append(_problem("ignored-choice", field, "file-stage", severity="info", stage=stage))
    return found


def paths(value: Mapping[str, Any], schema: Schema) -> list[Problem]:
    """Places of the operating system that something would be written to."""
    return [
        _problem("unsafe-path", path, "system", path=place[:200])
        for path, place in _places(value, "")
        if in_system(place) and not path.endswith(".nvme_path")  # judged with what is known of the folder
    ]


def _places(value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _places(inner, f"{prefix}{key}.")
        elif isinstance(inner, str) and key.endswith(PATHS):
            yield (prefix + key)[:120], inner


def _swaps(value: Mapping[str, Any], folders: Mapping[str, FolderFacts]) -> list[Problem]:
    found: list[Problem] = []
    for name, block in _offloads(value):
        if block.get("device") == "nvme":
            path = block.get("nvme_path")
            text = path if isinstance(path, str) else ""
            found += judge_swap(text, folders.get(text), f"{ZERO}.{name}.nvme_path")
    return found


Rule = Callable[[Mapping[str, Any], Schema], list[Problem]]
RULES: tuple[Rule, ...] = (batch, precision, stages, optimizers, schedulers, gather, unused, paths)
"""All rules about several keys together."""
