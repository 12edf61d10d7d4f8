"""What DeepSpeed has swapped to a disk: how much of it there is, and taking it away when a run is over.

Swapped is what DeepSpeed keeps in a file of its own and not in memory: a parameter whose shard is not available now, an
optimizer state whose tensor is empty. The files' own sizes are counted, up to what the tensors need (DeepSpeed rounds
them up).
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any

from deepspeed.runtime.swap_tensor.partitioned_param_swapper import PartitionedParamStatus
from torch import nn

from zeroboard.files import read_json
from zeroboard.paths import RunPaths

log = logging.getLogger(__name__)


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


def _size(path: str) -> int:
    return Path(path).stat().st_size if Path(path).is_file() else 0


def forget_swapped(run: RunPaths) -> None:
    """Remove the run's own folder for swapping, by the first rank of each machine; nothing else needs what is in it."""
    if os.environ.get("LOCAL_RANK", "0") != "0" or not run.plan.is_file():
        return
    for folder in swap_folders(run):
        if folder.name == run.id:  # ours alone: the plan made it for this run
            shutil.rmtree(folder, ignore_errors=True)


def swap_folders(run: RunPaths) -> set[Path]:
    """The folders that the run's DeepSpeed file swaps to."""
    resolved = read_json(run.plan).get("resolved") or {}
    name = resolved.get("deepspeed_config")
    if not name or not (run.folder / name).is_file():
        return set()
    zero = read_json(run.folder / name)["zero_optimization"]
    blocks = (zero.get("offload_optimizer") or {}, zero.get("offload_param") or {})
    return {Path(block["nvme_path"]) for block in blocks if "nvme_path" in block}
