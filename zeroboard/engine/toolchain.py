"""The verb `toolchain`: what torch was built for, and whether DeepSpeed could build its operators here.

DeepSpeed's own builders are asked, and one small program is really compiled: that a compiler is on the PATH does not
tell that it has Python's headers and OpenMP. No context is made on any GPU.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import torch

from zeroboard.contract.requests import Answer, ToolchainRequest
from zeroboard.contract.toolchain import OpFacts, Toolchain
from zeroboard.engine.channel import Channel

OPS = ("cpu_adam", "async_io")
"""The operators that a plan may need: the optimizer on the CPU, and reading and writing NVMe."""
PROGRAM = '#include <Python.h>\n#include <omp.h>\nextern "C" int zb(void) { return omp_get_max_threads(); }\n'
PATIENCE = 60.0
"""Seconds that the small program may take."""


def main(channel: Channel) -> int:
    """Answer with the `Toolchain`."""
    asked = ToolchainRequest.model_validate_json(channel.receive() or "{}")
    os.environ["DS_ACCELERATOR"] = asked.device  # before DeepSpeed is imported: which builders are meant
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    channel.send(Answer(value=toolchain(asked.device).model_dump(mode="json")))
    return 0


def toolchain(device: str) -> Toolchain:
    """Ask torch, DeepSpeed and the compiler."""
    complaint = compiles()
    found = Toolchain(
        torch=torch.__version__,
        cuda=torch.version.cuda,
        architectures=_architectures(),
        compiles=complaint is None,
        said=complaint,
    )
    try:
        version = importlib.metadata.version("deepspeed")
    except importlib.metadata.PackageNotFoundError:
        return found
    try:
        ops, toolkit = _ops(device)
    except Exception as error:  # noqa: BLE001  (whatever an import of DeepSpeed may raise here is the answer)
        return found.model_copy(update={"deepspeed": version, "said": complaint or _short(error)})
    return found.model_copy(update={"deepspeed": version, "ops": ops, "toolkit": toolkit})


def compiles() -> str | None:
    """Compile and link the small program; None where it went well, else what the compiler said."""
    compiler = shutil.which(os.environ.get("CXX") or "g++") or shutil.which("c++")
    if compiler is None:
        return "no C++ compiler"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "zb.cpp")
        source.write_text(PROGRAM, encoding="utf-8")
        include = sysconfig.get_paths()["include"]
        argv = [compiler, "-std=c++17", "-fopenmp", "-fPIC", "-shared", f"-I{include}", str(source), "-o"]
        try:
            done = subprocess.run(
                [*argv, str(Path(folder, "zb.so"))], capture_output=True, text=True, timeout=PATIENCE, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return _short(error)
    lines = [line for line in done.stderr.splitlines() if "error" in line.lower()] or done.stderr.splitlines()
    return None if done.returncode == 0 else (lines or [f"exit code {done.returncode}"])[0].strip()[:300]


def _architectures() -> tuple[str, ...]:
    """Read from the library itself: `torch.cuda.get_arch_list` tells nothing without a GPU."""
    flags = getattr(torch._C, "_cuda_getArchFlags", None)  # not there in a CPU build
    return tuple((flags() or "").split()) if flags is not None else ()


def _ops(device: str) -> tuple[dict[str, OpFacts], str | None]:
    # here, not at the top: DeepSpeed reads DS_ACCELERATOR, which the request decides, when it is imported
    from deepspeed.accelerator import get_accelerator
    from deepspeed.ops.op_builder import builder as builders

    toolkit, wrong = None, None
    if device == "cuda":
        try:
            toolkit = ".".join(map(str, builders.installed_cuda_version()))
            builders.assert_no_cuda_mismatch("cpu_adam")
        except Exception as error:  # noqa: BLE001  (DeepSpeed's own exceptions: no toolkit, another CUDA than torch's)
            wrong = _short(error)
    found = {}
    for name in OPS:
        op = get_accelerator().create_op_builder(name)
        good = op is not None and bool(op.is_compatible(verbose=True))
        why = wrong or (getattr(op, "error_log", None) if op is not None else "no builder of that name")
        found[name] = OpFacts(compatible=good and wrong is None, why=None if good and wrong is None else why)
    return found, toolkit


def _short(error: BaseException) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:300]
