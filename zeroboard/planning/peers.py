"""Consumer cards that cannot copy to each other, and what NCCL has to be told about them.

Source: accelerate 1.15, `check_cuda_p2p_ib_support`, which refuses to train on such cards without these switches.
"""

from __future__ import annotations

from zeroboard.contract.host import GpuFacts

P2P_NEVER = "RTX 40"
"""Consumer cards between which nothing can be copied directly."""
P2P_DRIVER = (550, 40, 7)
"""From here on the driver itself says so, and NCCL goes another way."""
P2P_SWITCHES = {"NCCL_IB_DISABLE": "1", "NCCL_P2P_DISABLE": "1"}


def without_p2p(gpus: tuple[GpuFacts, ...], driver: str | None) -> bool:
    """Several cards that cannot copy to each other, under a driver that does not say so."""
    if len(gpus) < 2 or not any(P2P_NEVER in (gpu.name or "") for gpu in gpus):
        return False
    have = numbers(driver)
    return have is None or have < P2P_DRIVER


def numbers(version: str | None) -> tuple[int, ...] | None:
    """`550.54.15` → (550, 54, 15); None where it is not so written."""
    parts = (version or "").split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else None
