"""The verb `toolchain` answers for the torch that is here, without a GPU."""

from __future__ import annotations

import pytest
import torch

from zeroboard.engine import toolchain


def test_a_build_for_the_cpu_names_no_cuda_and_deepspeed_that_raises_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(device: str) -> object:
        raise ImportError("undefined symbol:\n  c10")

    monkeypatch.setattr(toolchain, "_ops", raises)
    monkeypatch.setattr(toolchain, "compiles", lambda: None)
    found = toolchain.toolchain("cpu")
    assert found.torch == torch.__version__ and found.cuda == torch.version.cuda
    assert found.compiles and found.ops == {} and found.said == "undefined symbol: c10"


def test_a_missing_cuda_toolkit_makes_no_operator_possible_on_a_gpu() -> None:
    from torch.utils import cpp_extension

    if cpp_extension.CUDA_HOME is not None:
        pytest.skip("a CUDA toolkit is installed here")
    ops, toolkit = toolchain._ops("cuda")
    assert toolkit is None and not any(op.compatible for op in ops.values())
    assert "CUDA_HOME" in str(ops["cpu_adam"].why)
