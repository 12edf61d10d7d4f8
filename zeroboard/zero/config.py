"""The DeepSpeed file of a spec: every value resolved, integers where DeepSpeed wants them, no `auto`.

What the engine has to do for it. `transformers.Trainer` refuses a file whose values differ from its arguments, so
`TrainingArguments` must say the same: `per_device_train_batch_size` = `train_micro_batch_size_per_gpu`,
`gradient_accumulation_steps`, the product with the ranks = `train_batch_size`, `max_grad_norm` = `gradient_clipping`,
`bf16` = `bf16.enabled`, `fp16` = `fp16.enabled`, and with the blocks below learning rate, betas, epsilon, weight decay
and warm-up. All of them stand in `Resolved` and in the spec.

The optimizer. Unless chosen, no optimizer or scheduler block is written: the Trainer makes torch's AdamW and its own
schedule. With offload, accelerate 1.15 (`Accelerator._prepare_deepspeed`) turns that AdamW into DeepSpeed's CPU Adam,
keeping groups, learning rate and weight decay, as long as `zero_force_ds_cpu_optimizer` is not false; DeepSpeed 0.19
(`DeepSpeedEngine._configure_optimizer`) then raises for any other optimizer. So the offload files say
`zero_force_ds_cpu_optimizer: true` aloud: an offload that is really computed by torch cannot happen, it fails. The
schedule keeps working because both optimizers share the very dictionaries of their groups. Sources:
`transformers/integrations/deepspeed.py`, `accelerate/utils/deepspeed.py` (`map_pytorch_optim_to_deepspeed`).
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from zeroboard.contract.plan import DTYPE_BYTES, Batch, Dtype
from zeroboard.contract.spec import Offload, Stage, TrainSpec, ZeroSpec

DEFAULT_BUCKET = 200_000_000
"""Elements that are reduced or gathered at a time unless the model is smaller: 0.4 GB in 16 bit."""
MAX_LIVE = 1_000_000_000
"""DeepSpeed's own default for live parameters, reuse distance and sub-groups, in elements."""
DEFAULT_PREFETCH = 50_000_000
"""DeepSpeed's own default, in elements."""
DEFAULT_PERSISTENCE = 100_000
"""DeepSpeed's own default, in elements."""
DEFAULT_SWAP_BUFFER = 100_000_000
"""DeepSpeed's own default, in elements."""
SWAPPED_SUB_GROUP = 100_000_000
"""Elements that are updated at a time where states are swapped, unless asked: each of the optimizer's buffers holds one
such group in fp32 and in locked memory. One group of DeepSpeed's own size (10^9), or of all states, would need as much
memory as the states that were to be moved out of it."""
SWAPPED_LEAST = 1 << 20
"""Bytes below which DeepSpeed keeps a tensor in memory (`MIN_AIO_BYTES`); a larger block is the bound instead."""
SWAP_ALIGNMENT = 1024
"""Elements to which a buffer is rounded up, as DeepSpeed aligns what it swaps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the buckets of a file are cut to. Elements; None: not known."""

    parameters: int | None
    trainable: int | None
    """Those that have gradients: with LoRA only the adapter."""
    hidden: int | None
    largest: int | None = None
    """Of the model's tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What DeepSpeed's schedules count in. Optimizer steps."""

    total: int
    warmup: int


def config_name(stage: Stage, offload: Offload) -> str | None:
    """The name by which users know the file; None for stage none, which needs none."""
    if stage == "none":
        return None
    return f"ds_z{stage}{'_offload' if offload != 'none' else ''}_config.json"


def deepspeed_config(
    zero: ZeroSpec,
    train: TrainSpec,
    *,
    batch: Batch,
    dtype: Dtype,
    sizes: Sizes,
    schedule: Schedule | None = None,
    swap: str | None = None,
    gpu: bool = False,
) -> dict[str, JsonValue]:
    """The content of the DeepSpeed file.

    `schedule` is needed for a scheduler of DeepSpeed, `swap` (a folder) for NVMe; `gpu`: there is one, so that locked
    memory is worth something. Raises `ValueError` for what the planner refuses: stage none, parameters offloaded or
    NVMe below stage 3, and either of the two missing.
    """
    if zero.stage == "none" or (zero.offload == "all" and zero.stage != "3"):
        raise ValueError(f"no DeepSpeed file for stage {zero.stage} with offload {zero.offload}")
    config: dict[str, JsonValue] = {
        "train_micro_batch_size_per_gpu": batch.micro,
        "gradient_accumulation_steps": batch.accumulation,
        "train_batch_size": batch.total,
        "gradient_clipping": float(train.max_grad_norm),
        "bf16": {"enabled": dtype == "bf16"},
        "fp16": _fp16(zero, enabled=dtype == "fp16"),
        "zero_allow_untested_optimizer": True,
        "wall_clock_breakdown": False,
    }
    if zero.offload != "none":
        config["zero_force_ds_cpu_optimizer"] = True
    if zero.optimizer == "deepspeed":
        config["optimizer"] = _optimizer(train)
    if zero.scheduler != "trainer":
        config["scheduler"] = _scheduler(zero, train, schedule)
    config["zero_optimization"] = _zero(zero, sizes, batch.gpus, swap=swap, pin=pins(zero, gpu=gpu))
    if uses_nvme(zero):
        config["aio"] = {
            "block_size": zero.aio_block_size,
            "queue_depth": zero.aio_queue_depth,
            "intra_op_parallelism": zero.aio_parallelism,
            "single_submit": zero.aio_single_submit,
            "overlap_events": zero.aio_overlap_events,
        }
    return config


def uses_nvme(zero: ZeroSpec) -> bool:
    """Whether anything is swapped to a disk."""
    return (zero.offload != "none" and zero.optimizer_device == "nvme") or (
        zero.offload == "all" and zero.param_device == "nvme"
    )


def pins(zero: ZeroSpec, *, gpu: bool) -> bool:
    """Whether offloaded memory is locked."""
    return gpu if zero.pin_memory == "auto" else zero.pin_memory == "on"


def bucket(trainable: int | None, wanted: int | None = None) -> int:
    """Elements of a bucket: what is wanted (or the default), never more than there is to reduce, and even.

    DeepSpeed asserts an even size (`nccl_start_alignment_factor` in `stage_1_and_2.py`). At least 2.
    """
    size = wanted if wanted is not None else DEFAULT_BUCKET
    if trainable is not None:
        size = min(size, trainable)
    return max(size - size % 2, 2)


def persistence_threshold(hidden: int | None) -> int:
    """Stage 3 keeps tensors of at most so many elements whole: norms, biases and small adapters.

    Ten times the hidden size, as transformers fills `auto` (`HfTrainerDeepSpeedConfig.trainer_config_finalize`).
    """
    return 10 * hidden if hidden is not None else DEFAULT_PERSISTENCE


def swap_buffer(largest: int | None, ranks: int, wanted: int | None = None) -> int:
    """Elements of a buffer for swapping: what is wanted, or enough for the largest tensor's part."""
    if wanted is not None:
        return wanted
    if largest is None:
        return DEFAULT_SWAP_BUFFER
    return (largest // ranks // SWAP_ALIGNMENT + 1) * SWAP_ALIGNMENT


def sub_group(zero: ZeroSpec, most: int) -> int:
    """Elements that the optimizer updates at a time: what is wanted, else `most`, less where they are swapped."""
    if zero.sub_group_size is not None:
        return zero.sub_group_size
    swapped = zero.offload != "none" and zero.optimizer_device == "nvme"
    return min(most, SWAPPED_SUB_GROUP) if swapped else most


def swaps_parameters(zero: ZeroSpec) -> bool:
    """Whether parameters are swapped to a disk."""
    return zero.stage == "3" and zero.offload == "all" and zero.param_device == "nvme"


def reuse_distance(zero: ZeroSpec, most: int) -> int:
    """Elements within which a parameter that is used again stays gathered: what is wanted, else `most`.

    A parameter that is swapped keeps its buffer for as long as it is gathered, and there are a handful of buffers: with
    more such parameters than those DeepSpeed ends the rank ("Not enough buffers 0 for swapping 1"), so none stays.
    """
    if zero.max_reuse_distance is not None:
        return zero.max_reuse_distance
    return 0 if swaps_parameters(zero) else most


def swapped_least(zero: ZeroSpec) -> int:
    """Bytes below which a tensor's part, or a group of states, is not swapped."""
    return max(SWAPPED_LEAST, zero.aio_block_size)


def locked_bytes(zero: ZeroSpec, *, trained: int, largest: int, ranks: int, dtype: Dtype) -> int:
    """Bytes of host memory that swapping locks for each rank, of which there are `ranks` in all.

    `trained` and `largest` (of the model's tensors) are elements. DeepSpeed 0.19, `swap_tensor/`: buffers for the
    optimizer's states of a sub-group each, for parameters of a tensor's part each, and one for the sub-group's.
    """
    share = -(-trained // ranks)
    group = min(share, sub_group(zero, share) + -(-largest // ranks))
    found = zero.optimizer_buffers * group * 4 if zero.offload != "none" and zero.optimizer_device == "nvme" else 0
    if swaps_parameters(zero):
        part = swap_buffer(largest, ranks, zero.param_buffer_size)
        found += (zero.param_buffers * part + group) * DTYPE_BYTES[dtype]
    return found


def _fp16(zero: ZeroSpec, *, enabled: bool) -> dict[str, JsonValue]:
    if not enabled:
        return {"enabled": False}
    return {
        "enabled": True,
        "auto_cast": False,
        "loss_scale": zero.loss_scale,
        "initial_scale_power": zero.loss_scale_power,
        "loss_scale_window": zero.loss_scale_window,
        "hysteresis": zero.hysteresis,
        "min_loss_scale": zero.min_loss_scale,
    }


def _optimizer(train: TrainSpec) -> dict[str, JsonValue]:
    return {
        "type": "AdamW",
        "params": {
            "lr": train.learning_rate,
            "betas": [train.adam_beta1, train.adam_beta2],
            "eps": train.adam_epsilon,
            "weight_decay": train.weight_decay,
        },
    }


def _scheduler(zero: ZeroSpec, train: TrainSpec, schedule: Schedule | None) -> dict[str, JsonValue]:
    if schedule is None:
        raise ValueError(f"{zero.scheduler} needs to know its steps")
    params: dict[str, JsonValue] = {"warmup_num_steps": max(schedule.warmup, 1), "warmup_type": zero.warmup_curve}
    if zero.scheduler == "WarmupCosineLR":
        params |= {"warmup_min_ratio": zero.warmup_min_ratio, "cos_min_ratio": zero.cosine_min_ratio}
    else:
        lowest = zero.warmup_min_ratio * train.learning_rate
        params |= {"warmup_min_lr": lowest, "warmup_max_lr": train.learning_rate}
    if zero.scheduler != "WarmupLR":
        params["total_num_steps"] = schedule.total
    return {"type": zero.scheduler, "params": params}


def _zero(zero: ZeroSpec, sizes: Sizes, ranks: int, *, swap: str | None, pin: bool) -> dict[str, JsonValue]:
    reduced = bucket(sizes.trainable, zero.bucket_size)
    found: dict[str, JsonValue] = {
        "stage": int(zero.stage),
        "overlap_comm": zero.overlap_comm,
        "contiguous_gradients": zero.contiguous_gradients,
        "reduce_scatter": zero.reduce_scatter,
        "reduce_bucket_size": reduced,
    }
    if zero.stage == "3":
        found |= _stage_3(zero, sizes)
    else:
        gathered = zero.allgather_bucket_size
        found |= {
            "allgather_partitions": True,  # read by DeepSpeed 0.19, and used by nothing in it
            "allgather_bucket_size": reduced if gathered is None else bucket(sizes.trainable, gathered),
            "round_robin_gradients": zero.round_robin_gradients,
        }
    if zero.offload != "none":
        found["offload_optimizer"] = _offload_optimizer(zero, swap, pin)
    if zero.offload == "all":
        found["offload_param"] = _offload_param(zero, sizes, ranks, swap, pin)
    return found


def _offload_optimizer(zero: ZeroSpec, swap: str | None, pin: bool) -> dict[str, JsonValue]:
    place: dict[str, JsonValue] = {"device": zero.optimizer_device, "pin_memory": pin}
    if zero.optimizer_device == "nvme":
        return {**place, "nvme_path": _swap(zero, swap), "buffer_count": zero.optimizer_buffers}
    return {**place, "ratio": zero.ratio} if zero.stage == "3" else place


def _offload_param(zero: ZeroSpec, sizes: Sizes, ranks: int, swap: str | None, pin: bool) -> dict[str, JsonValue]:
    place: dict[str, JsonValue] = {"device": zero.param_device, "pin_memory": pin}
    if zero.param_device == "cpu":
        return place
    return {
        **place,
        "nvme_path": _swap(zero, swap),
        "buffer_count": zero.param_buffers,
        "buffer_size": swap_buffer(sizes.largest, ranks, zero.param_buffer_size),
        "max_in_cpu": zero.param_in_cpu,
    }


def _swap(zero: ZeroSpec, swap: str | None) -> str:
    if swap is None or zero.stage != "3":
        raise ValueError("NVMe needs stage 3 and a folder")
    return swap


def _stage_3(zero: ZeroSpec, sizes: Sizes) -> dict[str, JsonValue]:
    most = min(MAX_LIVE, sizes.parameters) if sizes.parameters is not None else MAX_LIVE
    live = zero.max_live_parameters if zero.max_live_parameters is not None else most
    # nine tenths of a square matrix of the model, as transformers fills `auto`
    prefetch = int(0.9 * sizes.hidden**2) if sizes.hidden is not None else DEFAULT_PREFETCH
    return {
        "sub_group_size": sub_group(zero, most),
        "stage3_prefetch_bucket_size": _cut(zero.prefetch_bucket_size, min(prefetch, live), sizes.parameters),
        "stage3_param_persistence_threshold": zero.persistence_threshold
        if zero.persistence_threshold is not None
        else min(persistence_threshold(sizes.hidden), most),
        "stage3_max_live_parameters": live,
        "stage3_max_reuse_distance": reuse_distance(zero, most),
        "stage3_gather_16bit_weights_on_model_save": zero.gather_on_save,
    }


def _cut(wanted: int | None, chosen: int, most: int | None) -> int:
    """What is wanted, but never more than the model; else what is chosen."""
    if wanted is None:
        return chosen
    return wanted if most is None else min(wanted, most)
