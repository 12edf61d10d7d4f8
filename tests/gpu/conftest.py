"""Without a GPU these tests are skipped loudly, or fail where they must not be missing (`ZEROBOARD_REQUIRE_GPU=1`)."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def gpus() -> int:
    """How many GPUs CUDA gives."""
    # here, not at the top: only who runs these tests pays for torch
    import torch

    if not torch.cuda.is_available():
        words = "No NVIDIA GPU here, so no training on one was tried."
        if os.environ.get("ZEROBOARD_REQUIRE_GPU") == "1":
            pytest.fail(words)
        pytest.skip(words)
    return torch.cuda.device_count()
