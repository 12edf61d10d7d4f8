"""DeepSpeed's side of a run: its configuration as the plan wrote it, its start, and the measured proof.

The proof says what a rank *holds* after its first optimizer step, read from the live objects of the engine:

- parameters: every tensor that holds weights. Under stage 3 that is each parameter's own shard (`ds_tensor`) plus
  what is whole at that moment (small parameters that DeepSpeed keeps gathered); a released parameter is an empty
  tensor and counts nothing.
- gradients: what stands between the last backward pass and the step, or between two passes of an accumulation, the
  larger of the two; None where neither could be read.
- optimizer: the tensors of the optimizer's state plus the master partition where it has memory of its own.
- frozen parameters: under stage 3, whether each was given back after its use.
- NVMe: of parameters and optimizer, what was swapped to files and holds no memory now (see `swapping`).
- offloaded: of these, what lies in host memory. On a GPU that is the tensors' own device; on the CPU, where all
  memory is the host's, it is what the engine says it offloads.

Covered: each tensor counts once, however many names it has. Not covered: communication buckets, activations and the
caching of an allocator (the peak shows those).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from typing import Any

import deepspeed
import torch
import torch.distributed as dist
from torch import nn
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from zeroboard.contract.plan import Plan, hash_files
from zeroboard.contract.reports import RankProof
from zeroboard.engine.memory import peak_memory
from zeroboard.engine.operators import ready_to_build
from zeroboard.engine.reporter import Reporter
from zeroboard.engine.swapping import read_each_once, swapped_bytes, swapped_parameters
from zeroboard.errors import BrokenFile
from zeroboard.files import read_json
from zeroboard.paths import RunPaths


def planned_config(run: RunPaths, plan: Plan) -> dict[str, Any] | None:
    """The DeepSpeed configuration that the plan wrote; None for plain data parallel.

    Raises `BrokenFile` where the files of the run are not those that were previewed.
    """
    if hash_files(plan.files) != plan.files_hash:
        raise BrokenFile("error.plan-changed", path=str(run.plan))
    name = plan.resolved.deepspeed_config if plan.resolved else None
    if name is None:
        return None
    path = run.folder / name
    if path.read_text(encoding="utf-8") != plan.files.get(name):
        raise BrokenFile("error.plan-changed", path=str(path))
    config = read_json(path)
    assert isinstance(config, dict)
    return config


def start_deepspeed(backend: str) -> None:
    """Stand up the process group; before any model is loaded, or stage 3 would shard over a world of one."""
    if backend == "gloo":
        # DeepSpeed compiles a shared-memory all-reduce at first use where it finds a compiler: half a minute at every
        # machine's first run, to spare microseconds of a step that takes seconds. An empty table is "none fits".
        deepspeed.ops.__compatible_ops__ = {}
    read_each_once()
    ready_to_build(first=os.environ.get("LOCAL_RANK", "0") == "0")
    deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False)


def _tensors(found: Any) -> Iterator[torch.Tensor]:
    """All tensors in nested dicts, lists and tuples."""
    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, dict):
        for value in found.values():
            yield from _tensors(value)
    elif isinstance(found, list | tuple):
        for value in found:
            yield from _tensors(value)


def _distinct(tensors: Iterable[torch.Tensor], known: Iterable[torch.Tensor] = ()) -> list[torch.Tensor]:
    """Those that hold memory, each piece of memory once, without what is among `known`."""
    seen = {(t.device, t.data_ptr()) for t in known if t.numel()}
    kept: list[torch.Tensor] = []
    for tensor in tensors:
        mark = (tensor.device, tensor.data_ptr())
        if tensor.numel() and mark not in seen:
            seen.add(mark)
            kept.append(tensor)
    return kept


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def parameter_tensors(model: nn.Module) -> list[torch.Tensor]:
    """The tensors that hold this rank's weights."""
    found: list[torch.Tensor] = []
    for parameter in model.parameters():
        found.append(parameter.data)
        shard = getattr(parameter, "ds_tensor", None)
        if shard is not None:
            found.append(shard.data)
    return _distinct(found)


def _master_partitions(optimizer: Any) -> list[torch.Tensor] | None:
    """The partition that a ZeRO optimizer updates: DeepSpeed's name for it at stages 1 and 2, and at stage 3."""
    for name in ("single_partition_of_fp32_groups", "fp32_partitioned_groups_flat"):
        found = getattr(optimizer, name, None)
        if found is not None:
            return list(found)
    return None


def innermost(optimizer: Any) -> Any:
    """DeepSpeed's ZeRO optimizer inside the Trainer's wrappers, or the plain optimizer where there is none."""
    while hasattr(optimizer, "optimizer") and _master_partitions(optimizer) is None:
        optimizer = optimizer.optimizer
    return optimizer


def optimizer_tensors(optimizer: Any, weights: list[torch.Tensor]) -> list[torch.Tensor]:
    """State and master copy; a master partition that is the weights themselves is none."""
    zero = innermost(optimizer)
    plain = getattr(zero, "optimizer", zero)
    state = _tensors([dict(entry) for entry in plain.state.values()])
    return _distinct([*(_master_partitions(zero) or []), *state], known=weights)


def gradient_tensors(model: nn.Module, optimizer: Any) -> list[torch.Tensor]:
    """The tensors that hold gradients now: the parameters' own, and where DeepSpeed keeps its partition of them."""
    zero = innermost(optimizer)
    masters = _master_partitions(zero) or []
    names = ("all_grad_tensors", "averaged_gradients", "accumulated_grads_in_cpu", "grad_partitions_flat_buffer")
    kept = [getattr(zero, name, None) for name in names]
    return _distinct(_tensors([[p.grad for p in [*model.parameters(), *masters]], *kept]))


def _offloaded_bytes(model: nn.Module, optimizer: Any, weights: list[torch.Tensor], states: list[torch.Tensor]) -> int:
    """Bytes of weights and optimizer states in host memory by offload."""
    if any(t.device.type != "cpu" for t in weights):
        # a step counter lies there with every optimizer of torch
        return _bytes(t for t in (*weights, *states) if t.device.type == "cpu" and t.dim())
    zero = innermost(optimizer)
    total = 0
    if getattr(zero, "cpu_offload", False) or getattr(zero, "offload_optimizer", False):
        total += _bytes(states)
    if getattr(zero, "offload_param", False):
        total += _bytes(_distinct(p.ds_tensor.data for p in model.parameters() if hasattr(p, "ds_tensor")))
    return total


def frozen_released(model: nn.Module) -> bool | None:
    """Whether every frozen parameter that stage 3 has sharded is an empty tensor now, but for those that it keeps.

    None where no frozen parameter is sharded. DeepSpeed keeps small parameters gathered on purpose (`ds_persist`).
    """
    frozen: list[Any] = [p for p in model.parameters() if hasattr(p, "ds_tensor") and not p.requires_grad]
    return all(p.data.numel() == 0 or p.ds_persist for p in frozen) if frozen else None


class ProofTaker(TrainerCallback):
    """Measures every rank at the first optimizer step and has rank 0 say what was found."""

    def __init__(self, reporter: Reporter, *, device: str) -> None:
        self.reporter = reporter
        self.device = device
        """`cpu`, or the GPU's UUID."""
        self.trainer: Trainer | None = None
        """Whose `model_wrapped` is DeepSpeed's engine, or DDP's, once the training has begun."""
        self._gradient_bytes = 0

    def on_substep_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.global_step == 0:
            self._look_at_gradients(kwargs["model"], kwargs["optimizer"])

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.global_step == 0:
            self._look_at_gradients(kwargs["model"], kwargs["optimizer"])

    def _look_at_gradients(self, model: nn.Module, optimizer: Any) -> None:
        self._gradient_bytes = max(self._gradient_bytes, _bytes(gradient_tensors(model, optimizer)))

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.global_step != 1:
            return
        mine = self.measure(kwargs["model"], kwargs["optimizer"])
        found: list[Any] = [mine]
        if dist.is_initialized():
            found = [None] * dist.get_world_size()
            dist.all_gather_object(found, mine)
        self.reporter.proof(tuple(RankProof.model_validate(one) for one in found))

    def measure(self, model: nn.Module, optimizer: Any) -> dict[str, Any]:
        """The fields of this rank's `RankProof`."""
        weights = parameter_tensors(model)
        states = optimizer_tensors(optimizer, weights)
        engine: Any = self.trainer.model_wrapped if self.trainer else None
        zero = isinstance(engine, deepspeed.DeepSpeedEngine)
        on_disk = swapped_parameters(model), swapped_bytes(innermost(optimizer))
        return {
            "rank": self.reporter.rank,
            "host": socket.gethostname(),
            "device": self.device,
            "pid": os.getpid(),
            "engine": "deepspeed" if zero else "ddp",
            "stage": int(engine.zero_optimization_stage()) if zero else 0,
            "parameter_bytes": _bytes(weights) + on_disk[0],
            "gradient_bytes": self._gradient_bytes or None,
            "optimizer_bytes": _bytes(states) + on_disk[1],
            "offloaded_bytes": _offloaded_bytes(model, optimizer, weights, states),
            "nvme_bytes": sum(on_disk),
            "frozen_released": frozen_released(model),
            "peak_memory_bytes": peak_memory(),
        }
