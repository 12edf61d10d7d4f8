"""What each rank will hold, for a plan's own stage and for every stage beside it. Pure: facts in, bytes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from zeroboard.contract.host import HostFacts
from zeroboard.contract.plan import DTYPE_BYTES, Dtype, ModelFacts, Promise
from zeroboard.contract.spec import Offload, RunSpec, Stage
from zeroboard.planning.choices import choose_devices, choose_dtype
from zeroboard.zero.config import persistence_threshold, sub_group, swapped_least, uses_nvme
from zeroboard.zero.promise import Places, lora_matrices, lora_parameters, promise, whole_elements


def trainable(spec: RunSpec, model: ModelFacts | None) -> int | None:
    """Elements that are trained; None where the model's shapes are not known."""
    if model is None or model.parameters is None:
        return None
    if spec.method.kind == "full":
        return model.parameters
    return lora_parameters(model.linear_shapes, spec.method.rank, spec.method.targets) if model.linear_shapes else None


def holding(
    spec: RunSpec, model: ModelFacts, *, ranks: int, dtype: Dtype, stage: Stage, offload: Offload
) -> Promise | None:
    """Bytes that each of the ranks holds at a stage; None where the model's shapes are not known."""
    trained = trainable(spec, model)
    if trained is None or model.parameters is None:
        return None
    lora = spec.method.kind == "lora"
    small = list(model.tensor_sizes.items())
    if lora:
        small += [(size, 1) for size in lora_matrices(model.linear_shapes, spec.method.rank, spec.method.targets)]
    return promise(
        stage=stage,
        offload=offload,
        ranks=ranks,
        frozen_parameters=model.parameters if lora else 0,
        trainable_parameters=trained,
        dtype=dtype,
        whole_parameters=whole_elements(small, kept_whole(spec, model)),
        places=places(spec, model, trained, ranks, dtype) if stage == "3" else None,
    )


def kept_whole(spec: RunSpec, model: ModelFacts) -> int:
    """Stage 3 keeps tensors of at most so many elements whole."""
    asked = spec.zero.persistence_threshold
    return asked if asked is not None else persistence_threshold(model.hidden)


def places(spec: RunSpec, model: ModelFacts, trained: int, ranks: int, dtype: Dtype) -> Places:
    """Where stage 3 offloads to. A ratio is counted in sub-groups, so one of them may stay that should not."""
    zero = spec.zero
    share = 1.0
    if zero.ratio < 1 and zero.optimizer_device == "cpu":
        groups = sub_groups(spec, trained, ranks)
        share = max(0.0, 1 - (int((1 - zero.ratio) * groups) + 1) / groups) if groups > 1 else 1.0
    small = zero.optimizer_device == "nvme" and states_are_small(spec, trained, ranks)
    return Places(
        optimizer="cpu" if small else zero.optimizer_device,
        parameters=zero.param_device,
        share=share,
        swapped=swapped_elements(spec, model, ranks, dtype),
        swaps=uses_nvme(zero),
    )


def states_are_small(spec: RunSpec, trained: int, ranks: int) -> bool:
    """Whether the optimizer's states are so few that DeepSpeed keeps them in memory instead of swapping them."""
    share = -(-trained // ranks)
    return min(share, sub_group(spec.zero, share)) * DTYPE_BYTES["fp32"] < swapped_least(spec.zero)


def swapped_elements(spec: RunSpec, model: ModelFacts, ranks: int, dtype: Dtype) -> int | None:
    """Elements of parameters that each rank swaps: of tensors whose part is large enough, less what is to stay.

    None where the tensors are not known. `param_in_cpu` keeps whole sub-groups of trained parameters in memory.
    """
    if not model.tensor_sizes:
        return None
    parts = [(-(-size // ranks), count) for size, count in model.tensor_sizes.items()]
    found = sum(part * count for part, count in parts if part * DTYPE_BYTES[dtype] >= swapped_least(spec.zero))
    trained = trainable(spec, model) if spec.method.kind == "full" else 0
    share = -(-(trained or 0) // ranks)
    group = max(1, min(share, sub_group(spec.zero, share)))
    return max(0, found - min(spec.zero.param_in_cpu, share) // group * group)


def sub_groups(spec: RunSpec, trained: int, ranks: int) -> int:
    """About how many groups the optimizer's step is cut into (`_create_fp16_sub_groups` of DeepSpeed's stage 3)."""
    size = spec.zero.sub_group_size
    return max(1, -(-trained // ranks // size)) if size is not None else 1


def every_stage(spec: RunSpec, model: ModelFacts, host: HostFacts) -> Mapping[Stage, Promise]:
    """What each rank holds at every stage, all else being as asked; empty where the shapes are not known.

    Offload is kept as far as a stage allows it: none without a stage, parameters at stage 3 alone.
    """
    devices = choose_devices(spec, host)
    dtype, _ = choose_dtype(spec, devices)
    found: dict[Stage, Promise] = {}
    for stage in get_args(Stage):
        held = holding(
            spec, model, ranks=devices.ranks, dtype=dtype, stage=stage, offload=allowed(spec.zero.offload, stage)
        )
        if held is not None:
            found[stage] = held
    return found


def allowed(offload: Offload, stage: Stage) -> Offload:
    """The offload that was asked, as far as a stage can do it."""
    if offload == "none" or stage == "none":
        return "none"
    return offload if stage == "3" else "optimizer"
