"""A DeepSpeed file taken over: its values become fields of the spec, so that form and file agree.

Only what stands in the file is set; everything else stays as the form has it. `auto` is left to ZeroBoard, which fills
every value itself, so the field goes back to its default. What no field can say is told, never passed over: `refused`
would change the training (it stands in the way), `left` only what is printed or measured.

A field of its own for the rest of a file, carried through word for word, was decided against: see
`docs/decisions/0009-brought-files.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from zeroboard.contract.given import shown
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.contract.schema import Schema
from zeroboard.contract.spec import fields
from zeroboard.zero.check import stage_of
from zeroboard.zero.keys import ZERO
from zeroboard.zero.normal import normalised

DIRECT: dict[str, str] = {
    "train_micro_batch_size_per_gpu": "train.micro_batch",
    "gradient_accumulation_steps": "train.accumulation",
    "gradient_clipping": "train.max_grad_norm",
    "fp16.loss_scale": "zero.loss_scale",
    "fp16.initial_scale_power": "zero.loss_scale_power",
    "fp16.loss_scale_window": "zero.loss_scale_window",
    "fp16.hysteresis": "zero.hysteresis",
    "fp16.min_loss_scale": "zero.min_loss_scale",
    "optimizer.params.lr": "train.learning_rate",
    "optimizer.params.eps": "train.adam_epsilon",
    "optimizer.params.weight_decay": "train.weight_decay",
    "scheduler.params.warmup_max_lr": "train.learning_rate",
    "scheduler.params.warmup_num_steps": "train.warmup_steps",
    "scheduler.params.total_num_steps": "train.max_steps",
    "scheduler.params.warmup_type": "zero.warmup_curve",
    "scheduler.params.warmup_min_ratio": "zero.warmup_min_ratio",
    "scheduler.params.cos_min_ratio": "zero.cosine_min_ratio",
    "aio.block_size": "zero.aio_block_size",
    "aio.queue_depth": "zero.aio_queue_depth",
    "aio.intra_op_parallelism": "zero.aio_parallelism",
    "aio.single_submit": "zero.aio_single_submit",
    "aio.overlap_events": "zero.aio_overlap_events",
    f"{ZERO}.overlap_comm": "zero.overlap_comm",
    f"{ZERO}.reduce_bucket_size": "zero.bucket_size",
    f"{ZERO}.allgather_bucket_size": "zero.allgather_bucket_size",
    f"{ZERO}.reduce_scatter": "zero.reduce_scatter",
    f"{ZERO}.contiguous_gradients": "zero.contiguous_gradients",
    f"{ZERO}.round_robin_gradients": "zero.round_robin_gradients",
    f"{ZERO}.sub_group_size": "zero.sub_group_size",
    f"{ZERO}.stage3_prefetch_bucket_size": "zero.prefetch_bucket_size",
    f"{ZERO}.stage3_param_persistence_threshold": "zero.persistence_threshold",
    f"{ZERO}.stage3_max_live_parameters": "zero.max_live_parameters",
    f"{ZERO}.stage3_max_reuse_distance": "zero.max_reuse_distance",
    f"{ZERO}.stage3_gather_16bit_weights_on_model_save": "zero.gather_on_save",
    f"{ZERO}.offload_optimizer.ratio": "zero.ratio",
    f"{ZERO}.offload_optimizer.buffer_count": "zero.optimizer_buffers",
    f"{ZERO}.offload_param.buffer_count": "zero.param_buffers",
    f"{ZERO}.offload_param.buffer_size": "zero.param_buffer_size",
    f"{ZERO}.offload_param.max_in_cpu": "zero.param_in_cpu",
}
"""Key of the file → field that means the same."""
ALIASES = ("prefetch_bucket_size", "param_persistence_threshold", "max_live_parameters", "max_reuse_distance",
           "gather_16bit_weights_on_model_save")  # fmt: skip
"""Keys that DeepSpeed takes with `stage3_` before them as well."""
TOGETHER = frozenset({
    f"{ZERO}.stage", f"{ZERO}.offload_optimizer.device", f"{ZERO}.offload_param.device",
    f"{ZERO}.offload_optimizer.pin_memory", f"{ZERO}.offload_param.pin_memory",
    f"{ZERO}.offload_optimizer.nvme_path", f"{ZERO}.offload_param.nvme_path",
    "fp16.enabled", "bf16.enabled", "train_batch_size",
    "optimizer.type", "optimizer.params.betas", "scheduler.type", "scheduler.params.warmup_min_lr",
})  # fmt: skip
"""Keys that are taken over by `_together`."""
SAME: dict[str, tuple[Any, ...]] = {
    "zero_allow_untested_optimizer": (True, False),
    "zero_force_ds_cpu_optimizer": (True,),
    "fp16.auto_cast": (False,),
    f"{ZERO}.allgather_partitions": (True, False),
    "optimizer.params.torch_adam": (False,),
    "optimizer.params.adam_w_mode": (True,),
    "optimizer.params.bias_correction": (True,),
    "optimizer.params.amsgrad": (False,),
}
"""Keys whose values here change nothing: ZeroBoard writes the same, or DeepSpeed heeds none of them."""
SCHEDULERS = ("WarmupLR", "WarmupDecayLR", "WarmupCosineLR")
PRINTED = ("steps_per_print", "wall_clock_breakdown", "memory_breakdown", "dump_state", "log_level", "tensorboard",
           "wandb", "comet", "csv_monitor", "comms_logger", "flops_profiler", "timers", "autotuning",
           "activation_checkpointing", "vocabulary_size", "dataloader_drop_last", "disable_python_gc",
           "checkpoint", "datastates_ckpt")  # fmt: skip
"""Keys that change nothing of what is learned: what is printed, measured, or done by the Trainer itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """What a file came to in the words of the spec."""

    values: dict[str, Any]
    """Dotted field → value, as `--set` would have it."""
    problems: tuple[Problem, ...]
    """`ignored-choice` for each key that no field can say: an error where it would change the training."""


def adopt(value: Mapping[str, Any], schema: Schema, *, ranks: int | None = None) -> Adopted:
    """The fields that a judged file sets. `ranks`: how many will train, where that is known.

    To be called for a file without errors; of one with errors it takes over what it can.
    """
    plain = _flat(_canonical(normalised(value, schema)), "")
    values: dict[str, Any] = dict(_together(plain, value))
    problems: list[Problem] = []
    defaults = _defaults()
    for path, given in plain.items():
        field = DIRECT.get(path)
        if field is not None:
            if not _means_something(path, plain, value):
                continue
            values[field] = defaults[field] if given == "auto" or given is None else given
        elif path not in TOGETHER or _other_maker(path, given):
            problems += _left(path, given, schema)
    problems += _batch(plain, values, ranks)
    return Adopted(values=values, problems=tuple(problems))


def _defaults() -> dict[str, Any]:
    return {facts.key: facts.default for facts in fields()}


def _canonical(value: dict[str, Any]) -> dict[str, Any]:
    """Keys of stage 3 under the names that users know."""
    zero = value.get(ZERO)
    if not isinstance(zero, dict):
        return value
    return {**value, ZERO: {(f"stage3_{key}" if key in ALIASES else key): one for key, one in zero.items()}}


def _flat(value: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Dotted path → value; an empty block is nothing."""
    found: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            found |= _flat(inner, f"{prefix}{key}.")
        else:
            found[prefix + key] = inner
    return found


def _means_something(path: str, plain: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    """Whether a key belongs to what is in use: a block for an offload that is off sets nothing."""
    if path.startswith("fp16.") or path.startswith(("optimizer.", "scheduler.", "aio.")):
        return True
    for name in ("offload_optimizer", "offload_param"):
        if path.startswith(f"{ZERO}.{name}."):
            device = plain.get(f"{ZERO}.{name}.device")
            if path.endswith((".ratio",)):
                return device == "cpu" and stage_of(value) == 3
            return device == "nvme"
    if path.startswith(f"{ZERO}.stage3_") or path == f"{ZERO}.sub_group_size":
        return stage_of(value) == 3
    if path in (f"{ZERO}.allgather_bucket_size", f"{ZERO}.round_robin_gradients"):
        return stage_of(value) in (1, 2)
    return True


def _together(plain: Mapping[str, Any], value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Fields that several keys decide together."""
    stage = stage_of(value)
    yield "zero.stage", str(stage) if stage else "none"
    places = [plain.get(f"{ZERO}.{name}.device") for name in ("offload_optimizer", "offload_param")]
    optimizer, parameters = (place if place in ("cpu", "nvme") else None for place in places)
    yield "zero.offload", "all" if parameters else "optimizer" if optimizer else "none"
    if optimizer:
        yield "zero.optimizer_device", optimizer
    if parameters:
        yield "zero.param_device", parameters
    path = next((p for name in ("offload_optimizer", "offload_param")
                 if plain.get(f"{ZERO}.{name}.device") == "nvme" and (p := plain.get(f"{ZERO}.{name}.nvme_path"))),
                None)  # fmt: skip
    if path is not None:
        yield "zero.nvme_path", path
    pins = [plain.get(f"{ZERO}.{name}.pin_memory") for name, on in (("offload_optimizer", optimizer),
                                                                    ("offload_param", parameters)) if on]  # fmt: skip
    told = [pin for pin in pins if isinstance(pin, bool)]
    if told:
        yield "zero.pin_memory", "on" if told[0] else "off"
    yield from _precision(plain)
    yield from _blocks(plain)


def _precision(plain: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    on = [name for name in ("bf16", "fp16") if plain.get(f"{name}.enabled") is True]
    auto = [name for name in ("bf16", "fp16") if plain.get(f"{name}.enabled") == "auto"]
    if on:
        yield "train.precision", on[0]
    elif auto:
        yield "train.precision", "auto"
    else:  # neither is on: DeepSpeed computes in fp32 then
        yield "train.precision", "fp32"


def _blocks(plain: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The blocks of optimizer and scheduler."""
    own = str(plain.get("optimizer.type", "")).lower() in ("adam", "adamw")
    yield "zero.optimizer", "deepspeed" if own else "trainer"
    scheduler = plain.get("scheduler.type")
    yield "zero.scheduler", scheduler if scheduler in SCHEDULERS else "trainer"
    betas = plain.get("optimizer.params.betas")
    if isinstance(betas, list) and len(betas) == 2:
        yield "train.adam_beta1", betas[0]
        yield "train.adam_beta2", betas[1]
    lowest = plain.get("scheduler.params.warmup_min_lr")
    highest = plain.get("scheduler.params.warmup_max_lr", plain.get("optimizer.params.lr"))
    if isinstance(lowest, int | float) and not isinstance(lowest, bool):
        if lowest == 0:
            yield "zero.warmup_min_ratio", 0.0
        elif isinstance(highest, int | float) and not isinstance(highest, bool) and highest > 0:
            yield "zero.warmup_min_ratio", lowest / highest


def _other_maker(path: str, given: Any) -> bool:
    """An optimizer or a schedule of DeepSpeed that the spec does not know."""
    if path == "optimizer.type":
        return str(given).lower() not in ("adam", "adamw")
    return path == "scheduler.type" and given not in SCHEDULERS


def _left(path: str, given: Any, schema: Schema) -> list[Problem]:
    """What no field can say."""
    top = path.split(".")[0]
    if given is None or given == "auto" or (path in SAME and given in SAME[path]):
        return []
    if path not in schema.keys and path not in schema.removed and top not in ("optimizer", "scheduler"):
        return []  # judged as an unknown key
    name = top if top in PRINTED else path
    params: dict[str, Scalar] = {"key": name, "value": shown(given, quoted=True)}
    if top in PRINTED:
        says = "problem.ignored-choice.not-taken"
        return [Problem(code="ignored-choice", severity="warning", field=name, says=says, params=params)]
    says = "problem.ignored-choice.no-field"
    return [Problem(code="ignored-choice", severity="error", field=path[:120], says=says, params=params)]


def _batch(plain: Mapping[str, Any], values: dict[str, Any], ranks: int | None) -> list[Problem]:
    """The train batch: split over the ranks where the file gives nothing finer, else compared."""
    total = plain.get("train_batch_size")
    if not isinstance(total, int) or isinstance(total, bool):
        return []
    micro, passes = plain.get("train_micro_batch_size_per_gpu"), plain.get("gradient_accumulation_steps")
    known = [one for one in (micro, passes) if isinstance(one, int) and not isinstance(one, bool)]
    if ranks is None or min(total, ranks, *known) < 1:  # what is below 1 is told by its own key
        return []
    rest, odd = divmod(total, ranks * (known[0] if len(known) == 1 else known[0] * known[1] if known else 1))
    if odd or rest < 1 or (len(known) == 2 and rest != 1):
        params: dict[str, Scalar] = {"total": total, "ranks": ranks, "micro": known[0] if known else 1}
        says = "problem.batch-mismatch.ranks"
        return [Problem(code="batch-mismatch", field="train_batch_size", says=says, params=params)]
    if not isinstance(micro, int):
        values["train.micro_batch"] = rest
        values.setdefault("train.accumulation", 1)
    elif not isinstance(passes, int):
        values["train.accumulation"] = rest
    return []
