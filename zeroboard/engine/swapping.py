"""What DeepSpeed has swapped to a disk: how much of it there is, and a fault of reading it that is mended here.

Swapped is what DeepSpeed keeps in a file of its own and not in memory: a parameter whose shard is not available now, an
optimizer state whose tensor is empty. The files' own sizes are counted, up to what the tensors need (DeepSpeed rounds
them up).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deepspeed.runtime.swap_tensor.partitioned_param_swapper import (
    AsyncPartitionedParameterSwapper,
    PartitionedParamStatus,
)
from torch import nn

from zeroboard.checkpoints.consolidate import SIZES, SWAPPED
from zeroboard.files import to_json, write_atomic


def swapped_parameters(model: nn.Module) -> int:
    """Bytes of parameters' shards that lie in files and not in memory."""
    total = 0
    for parameter in model.parameters():
        swapper, shard = getattr(parameter, "nvme_swapper", None), getattr(parameter, "ds_tensor", None)
        if swapper is None or shard is None or shard.status != PartitionedParamStatus.NOT_AVAILABLE:
            continue
        total += min(_size(swapper.get_path(parameter)), shard.ds_numel * parameter.element_size())
    return total


def swapped_bytes(optimizer: Any) -> int:
    """Bytes of the optimizer's states that lie in files and not in memory. `optimizer`: DeepSpeed's own."""
    swapper = getattr(optimizer, "optimizer_swapper", None)
    if swapper is None:
        return 0
    total = 0
    for state in swapper.swap_params_info.values():
        whole = state.numel() * state.dtype().itemsize
        total += sum(min(_size(one.swap_path), whole) for one in state.tensors if one.compute_tensor.numel() == 0)
    return total


def read_each_once() -> None:
    """Let no parameter be read twice at once; before the first step, by every rank.

    DeepSpeed 0.19 looks ahead along the forward and the backward pass (`__prefetch_nvme_param_partitions`), and where
    both lie within its sight it asks for a parameter that stands in both twice, which then fails: "param 7 already
    assigned swap buffer".
    """
    swap_in = AsyncPartitionedParameterSwapper.swap_in

    def once(self: Any, params: list[nn.Parameter], *args: Any, **kwargs: Any) -> Any:
        return swap_in(self, list(dict.fromkeys(params)), *args, **kwargs)

    AsyncPartitionedParameterSwapper.swap_in = once


def note_sizes(optimizer: Any, checkpoint: Path, rank: int) -> None:
    """Beside the swapped states that DeepSpeed copies into a checkpoint, note how many elements of each file count.

    The files are rounded up, and nothing else in the checkpoint tells where the master weights in them end.
    """
    swapper = getattr(optimizer, "optimizer_swapper", None)
    if swapper is None:
        return
    sizes = {str(name): int(state.numel()) for name, state in swapper.swap_params_info.items()}
    for folder in checkpoint.glob(f"*/{SWAPPED}/rank{rank:02d}"):
        write_atomic(folder / SIZES, to_json(sizes))


def _size(path: str) -> int:
    return Path(path).stat().st_size if Path(path).is_file() else 0
