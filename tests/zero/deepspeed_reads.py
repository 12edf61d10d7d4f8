"""Run in a process of its own: DeepSpeed's own classes read the files given as JSON on standard input.

Prints, for each, what DeepSpeed understood of it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from deepspeed.runtime.config import DeepSpeedConfig


def understood(config: dict[str, Any]) -> dict[str, Any]:
    """What DeepSpeed made of a file; raises where it does not accept it."""
    read = DeepSpeedConfig(config)
    zero = read.zero_config
    return {
        "stage": int(zero.stage),
        "train_batch_size": read.train_batch_size,
        "gradient_clipping": read.gradient_clipping,
        "bf16": read.bfloat16_config.enabled,
        "fp16": read.float16_config.enabled,
        "overlap_comm": zero.overlap_comm,
        "reduce_bucket_size": zero.reduce_bucket_size,
        "persistence": zero.param_persistence_threshold,
        "gather": zero.gather_16bit_weights_on_model_save,
        "offload_optimizer": str(zero.offload_optimizer.device) if zero.offload_optimizer else None,
        "offload_param": str(zero.offload_param.device) if zero.offload_param else None,
        "force_cpu_optimizer": read.zero_force_ds_cpu_optimizer,
    }


if __name__ == "__main__":
    json.dump([understood(config) for config in json.load(sys.stdin)], sys.stdout)
