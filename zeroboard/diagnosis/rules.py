"""The table of rules, first part: what logs say of causes. The first rule that matches an exception names it.

Order matters twice. Above stands what is more special than what follows: a shared memory that is too small also says
`No space left on device`. Within a rule the pattern that is better evidence stands first. The sentences are those of
torch, DeepSpeed, transformers, NCCL, CUDA and the kernel; older wordings stay, for old logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zeroboard.contract.problems import Severity

Role = Literal["cause", "late", "echo", "symptom", "noise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What some words in a log mean."""

    code: str
    role: Role = "cause"
    """cause: it can be where everything began · late: it shows long after its cause, if there is another · echo: it
    only says that another process ended · symptom: the run went on, but not well · noise: nothing."""
    severity: Severity = "error"
    variant: str | None = None
    """Sentence and remedies are those of `<code>.<variant>`."""
    raised: tuple[str, ...] = ()
    """Patterns in `Type: message` of an exception."""
    said: tuple[tuple[str, str], ...] = ()
    """(word, pattern) in a line outside of tracebacks; the word is looked for first, because that is fast."""
    explains: frozenset[str] = frozenset()
    """Codes of exceptions that follow from what was said."""

    @property
    def key(self) -> str:
        return self.code if self.variant is None else f"{self.code}.{self.variant}"


CAUSES: tuple[Rule, ...] = (
    # what the machine says, which explains what Python says later
    Rule(
        code="gpu-lost",
        said=(
            ("NVRM: Xid", r"NVRM: Xid \(.*?\): (?:48|62|63|64|74|79|92|94|95|119|120|140|154)\b"),
            ("fallen off the bus", r"(?:NVRM|GPU|nvidia).*fallen off the bus"),
            ("GPU is lost", r"GPU is lost"),
        ),
        raised=(r"GPU is lost", r"fallen off the bus", r"uncorrectable ECC error", r"CUDA error: .*hardware"),
        explains=frozenset({"gpu-unavailable", "collective-timeout", "killed-by-signal"}),
    ),
    Rule(
        code="driver-mismatch",
        said=(
            ("Driver/library version mismatch", r""),
            ("NVIDIA driver on your system is too old", r"UserWarning|RuntimeError"),
            ("Error 803", r"Error 803: system has unsupported"),
            ("Error 804", r"Error 804: forward compatibility"),
        ),
        raised=(
            r"Driver/library version mismatch",
            r"NVIDIA driver on your system is too old",
            r"driver version is insufficient for CUDA runtime",
            r"Error 80[34]:",
        ),
        explains=frozenset({"gpu-unavailable"}),
    ),
    Rule(
        code="host-oom",
        said=(
            ("emory cgroup out of memory", r"^(?:\[.*?\] |.*kernel: )?Memory cgroup out of memory"),
            ("Out of memory: Killed process", r""),
            ("oom_kill", r"(?:slurmstepd|srun): .*oom_kill event"),
            ("oom-kill", r"(?:slurmstepd|srun): .*oom-kill event|^\[.*?\] oom-kill:"),
            ("Out Of Memory", r"^srun: error: .*Out Of Memory"),
            ("invoked oom-killer", r""),
        ),
        raised=(
            r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)",
            r"(?:^|\.)_?(?:Array)?MemoryError\b",
            r"Unable to allocate [\d.]+ [KMGTP]iB for an array",
            r"\[Errno 12\]",
            r"Cannot allocate memory",
            r"std::bad_alloc",
        ),
        explains=frozenset({"killed-by-signal", "data-worker-died", "collective-timeout"}),
    ),
    Rule(
        code="shm-too-small",
        said=(
            ("NCCL WARN", r"NCCL WARN .*(?:/dev/shm|shared memory segment)"),
            ("insufficient shared memory", r"bus error encountered in worker|insufficient shared memory \(shm\)"),
        ),
        raised=(
            r"unable to (?:open|mmap|allocate|resize|write to) .{0,20}shared memory",
            r"insufficient shared memory",
            r"shared memory segment /dev/shm",
            r"No space left on device.*/dev/shm",
            r"/dev/shm.*No space left on device",
            r"DataLoader worker .*killed by signal: Bus error",
        ),
        explains=frozenset({"disk-full", "data-worker-died", "killed-by-signal"}),
    ),
    Rule(
        code="cuda-oom",
        variant="fragmented",
        raised=(r"out of memory(?s:.*)\b(?:[2-9]|\d{2,})\.\d+ GiB is reserved by PyTorch but unallocated",),
    ),
    Rule(
        code="cuda-oom",
        raised=(
            r"(?:CUDA|HIP|XPU) out of memory",
            r"OutOfMemoryError\b",
            r"CUDA error: out of memory",
            r"CUBLAS_STATUS_ALLOC_FAILED",
            r"[Cc]uda failure (?:2 )?'out of memory'",
            r"Failed to CUDA (?:m|c)alloc",
        ),
        said=(("NCCL WARN Cuda failure", r"Cuda failure (?:2 )?'out of memory'"),),
    ),
    Rule(
        code="p2p-unsupported",
        raised=(r"RTX \d000 series doesn't support", r"[Pp]eer access is not supported|cudaErrorPeerAccess"),
    ),
    Rule(
        code="port-in-use",
        said=(
            (
                "socket has failed to",
                r"server socket has failed to (?:bind|listen).*(?:[Aa]ddress already in use|errno: 98)",
            ),
        ),
        raised=(r"EADDRINUSE", r"[Aa]ddress already in use"),
    ),
    Rule(
        code="gpu-unavailable",
        raised=(
            r"No CUDA GPUs are available",
            r"no CUDA-capable device",
            r"Torch not compiled with CUDA enabled",
            r"invalid device ordinal",
            r"No slot '\d+' specified on host",
            r"Duplicate GPU detected",
            r"devices? (?:is|are|is/are) busy or unavailable",
            r"Found no NVIDIA driver",
            r"Unable to proceed, no GPU resources available",
            r"No CUDA runtime is found",
        ),
        said=(("NCCL WARN Duplicate GPU", r""),),
    ),
    # what DeepSpeed refuses
    Rule(
        code="offload-optimizer",
        raised=(r"ZeRO-Offload with a client provided optimizer", r"zero_force_ds_cpu_optimizer"),
    ),
    Rule(
        code="batch-mismatch",
        raised=(
            r"Check batch related parameters",
            r"train_batch_size.*(?:not equal|not divisible|has to be greater)",
            r"config values that mismatch(?s:.*)(?:batch_size|gradient_accumulation)",
        ),
    ),
    Rule(
        code="no-sync-accumulation",
        raised=(r"no_sync context manager is incompatible", r"no_sync.*ZeRO"),
    ),
    Rule(
        code="world-size-changed",
        raised=(
            r"DP world size of \d+ but the current world size",
            r"world size.*(?:changed|different|differs).*checkpoint",
            r"checkpoint.*(?:different|another) (?:number of|world)",
        ),
    ),
    Rule(
        code="precision-unsupported",
        raised=(
            r"[Bb][Ff](?:loat)?16.*(?:not supported|only supported|n't support|requires)|n't support bf16",
            r"\"\w+\" not implemented for '(?:Half|BFloat16)'",
            r"[Ff][Pp]16.*(?:is not supported|requires a GPU)",
            r"Attempting to unscale FP16 gradients",
        ),
    ),
    Rule(
        code="config-rejected",
        raised=(
            r"validation errors? for DeepSpeed",
            r"DeepSpeedConfigError",
            r"existing deepspeed config",
            r"not compatible with passing a `device_map`",
            r"correct the following DeepSpeed config values",
            r"bf16 and fp16 modes cannot be|fp16 and bf16",
            r"[Dd]eep[Ss]peed.*config.*(?:invalid|not supported|unknown)",
        ),
    ),
    Rule(
        code="overflow-loop",
        raised=(r"loss scale already at minimum",),
    ),
    # what cannot be built, loaded or imported
    Rule(
        code="cuda-mismatch",
        raised=(
            r"CUDAMismatchException",
            r"does not match the version torch was compiled with",
            r"detected CUDA version \(.*mismatches the version that was used",
            r"no kernel image is available for execution",
            r"lib(?:cudart|cublas|cudnn|nvrtc|nccl)\S*: cannot open shared object",
        ),
    ),
    Rule(
        code="op-build-failed",
        said=(
            ("error:", r"^(?:\S*/)?(?:c\+\+|g\+\+|gcc|cc1plus|nvcc|clang\+*)(?:-\d+)?: (?:fatal )?error:"),
            ("FAILED: ", r"^FAILED: (?:\[code=\d+\] )?\S+\.(?:o|so)\b"),
            ("ninja: build stopped", r""),
        ),
        raised=(
            r"Error building extension",
            r"Ninja is required",
            r"Command '\['ninja'",
            r"Unable to JIT load the",
            r"MissingCUDAException|CUDA_HOME (?:does not exist|environment variable is not set)",
            r"torch_extensions/\S*\.so: cannot open",
            r"Failed to find C compiler",
            r"has no attribute 'ds_opt_\w+'",
        ),
        explains=frozenset({"dependency-missing"}),
    ),
    Rule(
        code="weights-corrupt",
        raised=(
            r"[Ee]rror while deserializing header",
            r"SafetensorError(?!: Error while serializing)",
            r"HeaderTooLarge|MetadataIncompleteBuffer|InvalidHeader",
            r"invalid load key",
            r"PytorchStreamReader failed",
            r"pickle data was truncated|unpickling stack underflow",
            r"Unexpected EOF.*corrupted",
            r"failed finding central directory",
            r"without having git-lfs installed",
            r"WeightsUnpickler error: Unsupported operand",
        ),
    ),
    Rule(
        code="unsafe-load-refused",
        variant="remote-code",
        raised=(r"trust_remote_code=True",),
    ),
    Rule(
        code="unsafe-load-refused",
        raised=(
            r"Weights only load failed",
            r"Unsupported (?:global|class)",
            r"serious vulnerability issue in `torch\.load`",
        ),
    ),
    Rule(
        code="disk-full",
        raised=(
            r"No space left on device|\[Errno 28\]|ENOSPC",
            r"Disk quota exceeded|\[Errno 122\]",
            r"PytorchStreamWriter failed writing",
            r"unexpected pos \d+ vs \d+",
            r"not enough (?:free )?disk space",
            r"database or disk is full",
            r"I/O error: No space left",
        ),
        said=(("buffer nbytes != file bytes", r""),),
        explains=frozenset({"killed-by-signal"}),
    ),
    Rule(
        code="shape-mismatch",
        variant="index",
        said=(("Assertion `", r"Assertion `.*(?:srcSelectDimSize|index out of bounds|n_classes).*` failed"),),
        raised=(r"device-side assert triggered", r"index out of range in self", r"Target -?\d+ is out of bounds"),
        explains=frozenset({"killed-by-signal"}),
    ),
    Rule(
        code="shape-mismatch",
        raised=(
            r"size mismatch for",
            r"Error\(s\) in loading state_dict",
            r"shapes cannot be multiplied",
            r"The size of tensor a .* must match",
            r"Sizes of tensors must match",
            r"shape mismatch",
        ),
    ),
    Rule(
        code="hub-unreachable",
        raised=(
            r"couldn't connect to 'http",
            r"Max retries exceeded with url",
            r"LocalEntryNotFoundError",
            r"OfflineModeIsEnabled|offline mode is enabled",
            r"https?://\S*.*(?:name resolution|getaddrinfo|timed out)",
            r"(?:429|50\d) (?:Client|Server) Error",
            r"^(?:httpx|requests|urllib3|aiohttp)\.\S*(?:Connect|Timeout|Proxy)\w*",
        ),
    ),
    Rule(
        code="model-missing",
        variant="gated",
        raised=(r"GatedRepoError|gated repo|401 Client Error|403 Client Error",),
    ),
    Rule(
        code="model-missing",
        raised=(
            r"Incorrect path_or_model_id",
            r"Repo id must be",
            r"is not a local folder and is not a valid model identifier",
            r"RepositoryNotFoundError|Repository Not Found",
            r"Can't load (?:the )?(?:tokenizer|model|config)",
            r"[Ee]rror no file named (?:pytorch_model|model)",
            r"does not appear to have a file named",
            r"Can't find 'adapter_config\.json'",
        ),
    ),
    Rule(
        code="dependency-version",
        raised=(
            r"cannot import name",
            r"requires `?[\w.-]+ ?[<>=!]=?",
            r"is required for a normal functioning",
            r"numpy\.dtype size changed|compiled using NumPy 1",
            r"undefined symbol",
            r"__init__\(\) got an unexpected keyword argument",
            r"does not recognize this architecture",
            r"Tokenizer class \S+ does not exist",
        ),
    ),
    Rule(
        code="dependency-missing",
        raised=(
            r"No module named",
            r"PackageNotFoundError",
            r"requires the following packages",
            r"seems to be not installed",
            r"(?:ImportError|ModuleNotFoundError).*(?:not installed|pip install|conda install)",
            r"ImportError: lib\S+: cannot open shared object",
            r"command not found",
        ),
    ),
    # data
    Rule(
        code="template-refused",
        raised=(
            r"[Rr]oles must alternate",
            r"jinja2\.exceptions\.",
            r"TemplateError",
            r"chat_template is not set",
            r"System role not supported",
        ),
    ),
    Rule(
        code="data-worker-died",
        raised=(
            r"subprocesses has abruptly died during map",
            r"DataLoader worker .*(?:exited unexpectedly|killed by signal)",
            r"BrokenProcessPool",
        ),
    ),
)
