"""The engine as it must never be: one that trains by another DeepSpeed configuration than the plan's, or by none.

Started in place of `zeroboard.engine` by the tests of the proof; `IGNORING` says what is ignored.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import zeroboard.engine.__main__ as engine
from zeroboard.engine import train
from zeroboard.engine.sharding import planned_config


def ignoring(*given: Any) -> dict[str, Any] | None:
    """The plan's configuration, but for what is ignored."""
    config = planned_config(*given)
    assert config is not None
    zero = config["zero_optimization"]
    match os.environ["IGNORING"]:
        case "everything":
            return None
        case "stage":
            zero["stage"] = 2
            zero.pop("offload_param", None)
        case "offload":
            zero.pop("offload_optimizer")
        case "disk":
            zero["offload_optimizer"] = zero["offload_param"] = {"device": "cpu"}
    return config


if __name__ == "__main__":
    train.planned_config = ignoring
    sys.exit(engine.main(sys.argv[1:]))
