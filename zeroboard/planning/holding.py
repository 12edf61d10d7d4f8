"""What each rank will hold, for a plan's own stage and for every stage beside it. Pure: facts in, bytes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from zeroboard.contract.host import HostFacts
from zeroboard.contract.plan import Dtype, ModelFacts, Promise
from zeroboard.contract.spec import Offload, RunSpec, Stage
from zeroboard.planning.choices import choose_devices, choose_dtype
from zeroboard.zero.config import persistence_threshold
from zeroboard.zero.promise import lora_matrices, lora_parameters, promise, whole_elements


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
        whole_parameters=whole_elements(small, persistence_threshold(model.hidden)),
    )


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
