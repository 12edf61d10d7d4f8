"""Rules about what was chosen of ZeRO beyond stage and offload: what it needs, and what has no effect as things are.

Like those of `rules`. What has no effect was looked up in DeepSpeed 0.19: `runtime/zero/stage_1_and_2.py` and
`stage3.py`, `swap_tensor/`, `lr_schedules.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zeroboard.contract.base import Part
from zeroboard.contract.plan import DTYPE_BYTES
from zeroboard.contract.problems import Problem, Scalar, problem
from zeroboard.contract.spec import fields
from zeroboard.planning.facts import Facts
from zeroboard.planning.holding import states_are_small, sub_groups, swapped_elements
from zeroboard.planning.machine import size
from zeroboard.planning.steps import schedule_steps
from zeroboard.zero.config import locked_bytes, swap_buffer, swapped_least, swaps_parameters, uses_nvme
from zeroboard.zero.swap import judge_swap, swapped_most

MEANT: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("stage-3", ("prefetch_bucket_size", "max_live_parameters", "max_reuse_distance", "persistence_threshold",
                 "sub_group_size")),
    ("stage-12", ("allgather_bucket_size", "round_robin_gradients")),
    ("offload", ("optimizer_device", "nvme_path", "ratio", "pin_memory", "round_robin_gradients")),
    ("offload-all", ("param_device",)),
    ("nvme", ("nvme_path", "aio_block_size", "aio_queue_depth", "aio_parallelism", "aio_single_submit",
              "aio_overlap_events")),
    ("nvme-optimizer", ("optimizer_buffers",)),
    ("nvme-params", ("param_buffers", "param_buffer_size", "param_in_cpu")),
    ("fp16", ("loss_scale", "loss_scale_power", "loss_scale_window", "hysteresis", "min_loss_scale")),
    ("dynamic", ("loss_scale_power", "loss_scale_window", "hysteresis", "min_loss_scale")),
    ("scheduler", ("warmup_curve", "warmup_min_ratio")),
    ("cosine", ("cosine_min_ratio",)),
)  # fmt: skip
"""(what has to hold, fields of `zero` that mean nothing otherwise); the first that does not hold is told."""
BY_OTHERS = ("stage", "offload", "gather_on_save", "overlap_comm", "bucket_size")
"""Fields whose lack of effect `rules.ignored_choices` tells."""


def swaps(facts: Facts) -> list[Problem]:
    """Stage 3 alone swaps to a disk; the folder has to be one, with room; DeepSpeed compiles what reads and writes."""
    zero = facts.spec.zero
    if zero.offload == "none" or zero.stage == "none" or not uses_nvme(zero):
        return []
    moved = "zero.optimizer_device" if zero.optimizer_device == "nvme" else "zero.param_device"
    found = []
    if zero.stage != "3":
        found.append(problem("offload-needs-stage", moved, "nvme", {"stage": zero.stage}, mend={"zero.stage": "3"}))
    need = swapped_most(facts.promise, zero, facts.devices.local) if facts.promise is not None else None
    found += judge_swap(zero.nvme_path, facts.swap, "zero.nvme_path", need=need)
    op = facts.toolchain.ops.get("async_io") if facts.toolchain is not None else None
    if op is not None and not op.compatible:
        mend = {"zero.optimizer_device": "cpu", "zero.param_device": "cpu"}
        found.append(problem("offload-toolchain", moved, "aio", {"why": op.why or "-"}, mend=mend))
    return [*found, *_locks(facts, moved)]


def _locks(facts: Facts, field: str) -> list[Problem]:
    """What swapping reads into is locked memory: DeepSpeed ends the rank where the system gives it none."""
    zero, limit = facts.spec.zero, facts.host.lockable
    if limit is None or zero.stage != "3" or facts.trainable is None or facts.model is None:
        return []
    largest = max(facts.model.tensor_sizes, default=0)
    ranks = facts.devices.ranks
    need = locked_bytes(zero, trained=facts.trainable, largest=largest, ranks=ranks, dtype=facts.dtype)
    if need <= limit:
        return []
    params: dict[str, Scalar] = {"need": size(need), "limit": size(limit)}
    mend = {"zero.optimizer_device": "cpu", "zero.param_device": "cpu"}
    return [problem("offload-toolchain", field, "locked", params, mend=mend)]


def buffers(facts: Facts) -> list[Problem]:
    """A buffer for parameters holds the largest tensor's part."""
    zero, model = facts.spec.zero, facts.model
    asked = zero.param_buffer_size
    if asked is None or not swaps_parameters(zero) or model is None or not model.tensor_sizes:
        return []
    least = -(-max(model.tensor_sizes) // facts.devices.ranks)
    if asked >= least:
        return []
    mend = {"zero.param_buffer_size": swap_buffer(max(model.tensor_sizes), facts.devices.ranks)}
    return [problem("value-range", "zero.param_buffer_size", "buffer", {"asked": asked, "least": least}, mend=mend)]


def held_buffers(facts: Facts) -> list[Problem]:
    """Parameters that are swapped and stay gathered each keep one of the few buffers, and DeepSpeed ends the rank.

    Those stay that are used again within a distance; and frozen ones, which DeepSpeed 0.19 does not give back in time
    (tried with LoRA: "Not enough buffers 0 for swapping 1" in the second step).
    """
    zero, model = facts.spec.zero, facts.model
    if not swaps_parameters(zero) or model is None:
        return []
    width, ranks = DTYPE_BYTES[facts.dtype], facts.devices.ranks
    sizes = model.tensor_sizes.items()
    swapped = sum(count for size, count in sizes if -(-size // ranks) * width >= swapped_least(zero))
    if swapped <= zero.param_buffers:
        return []
    params: dict[str, Scalar] = {"tensors": swapped, "buffers": zero.param_buffers}
    found = []
    if zero.max_reuse_distance:
        field = "zero.max_reuse_distance"
        found.append(problem("value-range", field, "reuse", params, mend={field: 0}))
    if facts.spec.method.kind == "lora":
        field = "zero.param_device"
        found.append(problem("value-range", field, "frozen", params, mend={field: "cpu"}))
    return found


def ratio(facts: Facts) -> list[Problem]:
    """A part of the optimizer: at stage 3 alone, and counted in whole sub-groups."""
    zero, field = facts.spec.zero, "zero.ratio"
    if zero.ratio == 1 or zero.offload == "none" or zero.stage == "none":
        return []
    if zero.stage != "3":
        return [problem("offload-needs-stage", field, "ratio", {"stage": zero.stage}, mend={"zero.stage": "3"})]
    if zero.optimizer_device == "nvme":
        return [problem("ignored-choice", field, "ratio-nvme", severity="warning", mend={field: 1.0})]
    if facts.trainable is None or int((1 - zero.ratio) * sub_groups(facts.spec, facts.trainable, facts.devices.ranks)):
        return []
    size = max(facts.trainable // facts.devices.ranks // 20, 1)
    mend = {"zero.sub_group_size": size}
    return [problem("ignored-choice", field, "ratio", {"size": size}, severity="warning", mend=mend)]


def schedules(facts: Facts) -> list[Problem]:
    """DeepSpeed's schedules count steps that have to be known when the file is written: then the data is tokenised."""
    spec = facts.spec
    if spec.zero.stage == "none" or spec.zero.scheduler == "trainer":
        return []
    field = "zero.scheduler"
    params: dict[str, Scalar] = {"name": spec.zero.scheduler}
    counted = schedule_steps(spec, facts.steps)
    if counted is None:
        return [problem("scheduler-conflict", field, "later", params, severity="warning")]
    found = []
    if counted.total and counted.warmup > counted.total:
        named: dict[str, Scalar] = {"warm": counted.warmup, "total": counted.total, "key": "train.warmup_steps"}
        found.append(problem("scheduler-conflict", "train.warmup_steps", "longer", named))
    if "schedule" in changed(spec.train, ("schedule",)):
        found.append(problem("ignored-choice", "train.schedule", "deepspeed", params, severity="warning"))
    return found


def optimizer_compiles(facts: Facts) -> list[Problem]:
    """DeepSpeed's own AdamW is compiled at first use."""
    zero = facts.spec.zero
    if zero.stage == "none" or zero.optimizer != "deepspeed" or facts.host.compiler is not None:
        return []
    return [problem("offload-toolchain", "zero.optimizer", "optimizer", mend={"zero.optimizer": "trainer"})]


def without_effect(facts: Facts) -> list[Problem]:
    """What was chosen and does nothing here."""
    spec, zero = facts.spec, facts.spec.zero
    asked = [name for name in changed(zero, _names()) if name not in BY_OTHERS]
    found: list[tuple[str, str]] = []
    if zero.stage == "none":
        found += [(f"zero.{name}", "stage-none") for name in asked]
    else:
        holds = _holds(facts)
        for name in asked:
            missing = next((what for what, names in MEANT if name in names and not holds[what]), None)
            if missing is not None:
                found.append((f"zero.{name}", missing))
        if zero.offload != "none" and zero.stage != "3" and not zero.contiguous_gradients:
            found.append(("zero.contiguous_gradients", "contiguous"))
        found += [("zero.optimizer_device", "small-states")] if _too_small(facts) else []
        found += [("zero.param_device", "small-tensors")] if _tensors_too_small(facts) else []
    if spec.train.warmup_steps is not None and changed(spec.train, ("warmup_ratio",)):
        found.append(("train.warmup_ratio", "warmup"))
    return [problem("ignored-choice", field, variant, severity="warning") for field, variant in found]


def _holds(facts: Facts) -> dict[str, bool]:
    """What has to hold for a field to mean something → whether it does."""
    zero = facts.spec.zero
    fp16 = facts.dtype == "fp16"
    return {
        "stage-3": zero.stage == "3",
        "stage-12": zero.stage in ("1", "2"),
        "offload": zero.offload != "none",
        "offload-all": zero.offload == "all",
        "nvme": uses_nvme(zero),
        "nvme-optimizer": zero.offload != "none" and zero.optimizer_device == "nvme",
        "nvme-params": zero.offload == "all" and zero.param_device == "nvme",
        "fp16": fp16,
        "dynamic": fp16 and zero.loss_scale == 0,
        "scheduler": zero.scheduler != "trainer",
        "cosine": zero.scheduler == "WarmupCosineLR",
    }


def _too_small(facts: Facts) -> bool:
    """Whether the optimizer's states are so few that DeepSpeed keeps them in memory instead of swapping them."""
    zero = facts.spec.zero
    if zero.offload == "none" or zero.stage != "3" or zero.optimizer_device != "nvme" or facts.trainable is None:
        return False
    return states_are_small(facts.spec, facts.trainable, facts.devices.ranks)


def _tensors_too_small(facts: Facts) -> bool:
    """Whether DeepSpeed keeps every parameter in memory, for none is large enough to be swapped."""
    zero, model = facts.spec.zero, facts.model
    return (
        swaps_parameters(zero)
        and model is not None
        and swapped_elements(facts.spec, model, facts.devices.ranks, facts.dtype) == 0
    )


def _names() -> Iterator[str]:
    return (facts.key.removeprefix("zero.") for facts in fields() if facts.key.startswith("zero."))


def changed(part: Part, names: Iterable[str]) -> list[str]:
    """The fields whose value is not the default."""
    return [name for name in names if getattr(part, name) != type(part).model_fields[name].get_default()]
