"""The rules for causes: the sentences of the libraries, and what they are taken for."""

from __future__ import annotations

import pytest

from zeroboard.contract.findings import FINDING_CODES
from zeroboard.diagnosis.matching import of_exception, of_line
from zeroboard.diagnosis.rules import CAUSES

# ruff: noqa: E501 - sentences as the libraries write them
RAISED = {
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 5 has a total capacity of 79 GiB": "cuda-oom",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`": "cuda-oom",
    "RuntimeError: [enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: not enough memory: you tried to": "host-oom",
    "MemoryError": "host-oom",
    "RuntimeError: unable to write to file </torch_1_2>: No space left on device, /dev/shm is too small": "shm-too-small",
    "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that": "shm-too-small",
    "RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly": "data-worker-died",
    "OSError: [Errno 28] No space left on device": "disk-full",
    "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: StorageFull, message: "
    "\"No space left on device\" })": "disk-full",
    "RuntimeError: Ninja is required to load C++ extensions": "op-build-failed",
    "deepspeed.ops.op_builder.builder.MissingCUDAException: CUDA_HOME does not exist, unable to compile": "op-build-failed",
    "RuntimeError: \nThe detected CUDA version (12.4) mismatches the version that was used to compile": "cuda-mismatch",
    "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device": "cuda-mismatch",
    "RuntimeError: No CUDA GPUs are available": "gpu-unavailable",
    "AssertionError: Torch not compiled with CUDA enabled": "gpu-unavailable",
    "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).": "driver-mismatch",
    "ValueError: Please correct the following DeepSpeed config values that mismatch TrainingArguments values:\n"
    "- ds train_micro_batch_size_per_gpu=1 vs hf per_device_train_batch_size=2": "batch-mismatch",
    "ValueError: Please correct the following DeepSpeed config values that mismatch TrainingArguments values:\n"
    "- ds bf16.enabled=True vs hf bf16=False": "config-rejected",
    "ValueError: Your setup doesn't support bf16/gpu.": "precision-unsupported",
    "RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'": "precision-unsupported",
    "_pickle.UnpicklingError: Weights only load failed. Unsupported global: GLOBAL a.B": "unsafe-load-refused",
    "_pickle.UnpicklingError: invalid load key, 'v'.": "weights-corrupt",
    "ValueError: The repository x contains custom code. Please pass the argument `trust_remote_code=True`": "unsafe-load-refused",
    "OSError: x is not a local folder and is not a valid model identifier listed on the hub": "model-missing",
    "OSError: We couldn't connect to 'https://hub.example' to load the files": "hub-unreachable",
    "huggingface_hub.errors.GatedRepoError: 401 Client Error.": "model-missing",
    "ValueError: The checkpoint you are trying to load has model type `x` but Transformers does not recognize this "
    "architecture.": "dependency-version",
    "TypeError: Trainer.__init__() got an unexpected keyword argument 'tokenizer'": "dependency-version",
    "ModuleNotFoundError: No module named 'deepspeed'": "dependency-missing",
    "ValueError: Cannot use chat template functions because tokenizer.chat_template is not set": "template-refused",
    "IndexError: index out of range in self": "shape-mismatch",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)": "shape-mismatch",
    "RuntimeError: The server socket has failed to listen on any local network address. code: -98, name: EADDRINUSE": "port-in-use",
    "ZeroDivisionError: division by zero": "python-exception",
    "OSError: [Errno 5] Input/output error": "python-exception",
}  # fmt: skip


@pytest.mark.parametrize(("text", "code"), RAISED.items())
def test_an_exception_is_recognised(text: str, code: str) -> None:
    assert of_exception(text)[0].code == code


SAID = {
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.": "gpu-lost",
    "[12.3] Memory cgroup out of memory: Killed process 35044 (python) total-vm:9kB": "host-oom",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0.": "host-oom",
    "host:1:2 [0] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-x to 9 bytes": "shm-too-small",
    "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).": "shm-too-small",
    "[W0826 19:42 socket.cpp] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).": "port-in-use",
    "FAILED: cpu_adam.o": "op-build-failed",
    "/usr/bin/g++-9: error: unrecognized command-line option '-std=c++20'": "op-build-failed",
}  # fmt: skip


@pytest.mark.parametrize(("text", "code"), SAID.items())
def test_a_line_is_recognised(text: str, code: str) -> None:
    found = of_line(text)
    assert found is not None and found[0].code == code


@pytest.mark.parametrize(
    "text",
    [
        "user: my GPU had an error: CUDA out of memory, is it broken?",
        "NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=python, an application error",
        "error: row 3 of the data is about errors",
        "FAILED: to find a joke",
        "WARNING CUDA out of memory, trying a smaller batch",
        "Out of memory? Kill a process!",
        "loading /dev/shm/model",
    ],
)
def test_words_that_only_look_like_it_are_nothing(text: str) -> None:
    assert of_line(text) is None


def test_every_rule_has_a_known_code_and_something_to_look_for() -> None:
    assert {rule.code for rule in CAUSES} <= set(FINDING_CODES)
    assert all(rule.role == "cause" and (rule.raised or rule.said) for rule in CAUSES)
    assert all(rule.explains <= set(FINDING_CODES) for rule in CAUSES)


def test_memory_in_pieces_is_told_apart() -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory. 15 GiB is allocated, and {} is reserved by PyTorch but unallocated."
    assert of_exception(text.format("7.61 GiB"))[0].key == "cuda-oom.fragmented"
    assert of_exception(text.format("411.20 MiB"))[0].key == "cuda-oom"
