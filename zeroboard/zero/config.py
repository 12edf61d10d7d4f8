"""The DeepSpeed file of a stage: every value resolved, integers where DeepSpeed wants them, no `auto`.

What the engine has to do for it. `transformers.Trainer` refuses a file whose values differ from its arguments, so
`TrainingArguments` must say the same: `per_device_train_batch_size` = `train_micro_batch_size_per_gpu`,
`gradient_accumulation_steps`, the product with the ranks = `train_batch_size`, `max_grad_norm` = `gradient_clipping`,
`bf16` = `bf16.enabled`, `fp16` = `fp16.enabled`. All of them stand in `Resolved` and in the spec.

The optimizer. No optimizer or scheduler block is written: the Trainer makes torch's AdamW and its own schedule. With
offload, accelerate 1.15 (`Accelerator._prepare_deepspeed`) turns that AdamW into DeepSpeed's CPU Adam, keeping groups,
learning rate and weight decay, as long as `zero_force_ds_cpu_optimizer` is not false; DeepSpeed 0.19 (`DeepSpeedEngine.
_configure_optimizer`) then raises for any other optimizer. So the offload files say `zero_force_ds_cpu_optimizer: true`
aloud: an offload that is really computed by torch cannot happen, it fails. The schedule keeps working because both
optimizers share the very dictionaries of their groups. Sources: `transformers/integrations/deepspeed.py`,
`accelerate/utils/deepspeed.py` (`map_pytorch_optim_to_deepspeed`).
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from zeroboard.contract.plan import Batch, Dtype
from zeroboard.contract.spec import Offload, Stage

DEFAULT_BUCKET = 200_000_000
"""Elements that are reduced or gathered at a time unless the model is smaller: 0.4 GB in 16 bit."""
MAX_LIVE = 1_000_000_000
"""DeepSpeed's own default for live parameters, reuse distance and sub-groups, in elements."""
DEFAULT_PREFETCH = 50_000_000
"""DeepSpeed's own default, in elements."""
DEFAULT_PERSISTENCE = 100_000
"""DeepSpeed's own default, in elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the buckets of a file are cut to. Elements; None: not known."""

    parameters: int | None
    trainable: int | None
    """Those that have gradients: with LoRA only the adapter."""
    hidden: int | None


def config_name(stage: Stage, offload: Offload) -> str | None:
    """The name by which users know the file; None for stage none, which needs none."""
    if stage == "none":
        return None
    return f"ds_z{stage}{'_offload' if offload != 'none' else ''}_config.json"


def deepspeed_config(
    *,
    stage: Stage,
    offload: Offload,
    batch: Batch,
    dtype: Dtype,
    max_grad_norm: float,
    sizes: Sizes,
    bucket_size: int | None = None,
    overlap_comm: bool = False,
    gather_on_save: bool = True,
    pin_memory: bool = False,
) -> dict[str, JsonValue]:
    """The content of the DeepSpeed file.

    `bucket_size` is in elements (None: chosen); `pin_memory` locks offloaded memory, which only a GPU gains from.
    Raises `ValueError` for what the planner refuses: stage none, and parameters offloaded below stage 3.
    """
    if stage == "none" or (offload == "all" and stage != "3"):
        raise ValueError(f"no DeepSpeed file for stage {stage} with offload {offload}")
    config: dict[str, JsonValue] = {
        "train_micro_batch_size_per_gpu": batch.micro,
        "gradient_accumulation_steps": batch.accumulation,
        "train_batch_size": batch.total,
        "gradient_clipping": float(max_grad_norm),
        "bf16": {"enabled": dtype == "bf16"},
        "fp16": _fp16(enabled=dtype == "fp16"),
        "zero_allow_untested_optimizer": True,
        "wall_clock_breakdown": False,
    }
    if offload != "none":
        config["zero_force_ds_cpu_optimizer"] = True
    config["zero_optimization"] = _zero(
        stage=stage,
        offload=offload,
        sizes=sizes,
        bucket=bucket(sizes.trainable, bucket_size),
        overlap_comm=overlap_comm,
        gather_on_save=gather_on_save,
        pin_memory=pin_memory,
    )
    return config


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


def _fp16(*, enabled: bool) -> dict[str, JsonValue]:
    if not enabled:
        return {"enabled": False}
    return {
        "enabled": True,
        "auto_cast": False,
        "loss_scale": 0,
        "initial_scale_power": 16,
        "loss_scale_window": 1000,
        "hysteresis": 2,
        "min_loss_scale": 1,
    }


def _zero(
    *,
    stage: Stage,
    offload: Offload,
    sizes: Sizes,
    bucket: int,
    overlap_comm: bool,
    gather_on_save: bool,
    pin_memory: bool,
) -> dict[str, JsonValue]:
    zero: dict[str, JsonValue] = {
        "stage": int(stage),
        "overlap_comm": overlap_comm,
        "contiguous_gradients": True,
        "reduce_scatter": True,
        "reduce_bucket_size": bucket,
    }
    if stage == "3":
        zero |= _stage_3(sizes, gather_on_save)
    else:
        zero |= {"allgather_partitions": True, "allgather_bucket_size": bucket, "round_robin_gradients": False}
    place: dict[str, JsonValue] = {"device": "cpu", "pin_memory": pin_memory}
    if offload != "none":
        zero["offload_optimizer"] = dict(place)
    if offload == "all":
        zero["offload_param"] = dict(place)
    return zero


def _stage_3(sizes: Sizes, gather_on_save: bool) -> dict[str, JsonValue]:
    live = min(MAX_LIVE, sizes.parameters) if sizes.parameters is not None else MAX_LIVE
    # nine tenths of a square matrix of the model, as transformers fills `auto`
    prefetch = int(0.9 * sizes.hidden**2) if sizes.hidden is not None else DEFAULT_PREFETCH
    return {
        "sub_group_size": live,
        "stage3_prefetch_bucket_size": min(prefetch, live),
        "stage3_param_persistence_threshold": min(persistence_threshold(sizes.hidden), live),
        "stage3_max_live_parameters": live,
        "stage3_max_reuse_distance": live,
        "stage3_gather_16bit_weights_on_model_save": gather_on_save,
    }
