"""The rules that are checked before anything starts: small pure functions, each of which names what stands in the way.

Every rule looks at the same `Facts` and answers with problems; `check` asks them all, so that all is told at once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from zeroboard.contract.plan import DTYPE_BYTES
from zeroboard.contract.problems import Problem, Scalar, problem
from zeroboard.planning import data_rules, zero_rules
from zeroboard.planning.choices import BF16_CAPABILITY, lowest_capability, usable_gpus
from zeroboard.planning.facts import Facts
from zeroboard.planning.tokens import RECURRENT
from zeroboard.planning.visible import visible_gpus
from zeroboard.zero.promise import targeted

SHM_LEAST = 1 << 30
"""Bytes of /dev/shm below which several GPUs may hang (NCCL and data workers share memory there)."""
PSEUDO = ("/proc", "/sys", "/dev")
"""Folders whose files are no files, but for /dev/shm."""
OUTSIDE = ("embed_tokens", "lm_head", "wte", "embed_in", "embed_out", "word_embeddings")
"""Names of embeddings and heads, which stand outside the blocks."""
DTYPE_NAMES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}

Rule = Callable[[Facts], list[Problem]]


def check(facts: Facts) -> tuple[Problem, ...]:
    """Every problem that a rule finds, errors first."""
    found = [problem for rule in RULES for problem in rule(facts)]
    return tuple(sorted(found, key=lambda problem: problem.severity != "error"))


def offload_needs_stage(facts: Facts) -> list[Problem]:
    """Offload is part of ZeRO, and parameters can leave the GPU at stage 3 alone."""
    zero, code, field = facts.spec.zero, "offload-needs-stage", "zero.offload"
    if zero.offload == "none":
        return []
    if zero.stage == "none":
        stage = "3" if zero.offload == "all" else "2"
        return [problem(code, field, params={"stage": stage}, mend={"zero.stage": stage})]
    if zero.offload == "all" and zero.stage != "3":
        return [problem(code, field, "param", {"stage": zero.stage}, mend={"zero.stage": "3"})]
    return []


def offload_toolchain(facts: Facts) -> list[Problem]:
    """DeepSpeed compiles the optimizer that runs on the CPU."""
    if facts.spec.zero.offload == "none" or facts.host.compiler is not None:
        return []
    return [problem("offload-toolchain", "zero.offload", mend={"zero.offload": "none"})]


def stage_unneeded(facts: Facts) -> list[Problem]:
    """A stage shares between ranks; one rank has nobody to share with, unless it offloads."""
    zero = facts.spec.zero
    if zero.stage == "none" or zero.offload != "none" or facts.devices.ranks > 1:
        return []
    params = {"stage": zero.stage}
    return [problem("stage-unneeded", "zero.stage", params=params, severity="warning", mend={"zero.stage": "none"})]


def precision(facts: Facts) -> list[Problem]:
    """Types that the device does not compute in, or not well."""
    asked, code, field = facts.spec.train.precision, "precision-unsupported", "train.precision"
    auto = {"train.precision": "auto"}
    found: list[Problem] = []
    if facts.devices.device == "cpu":
        if asked == "fp16":
            found.append(problem(code, field, "cpu-fp16", mend=auto))
        elif asked == "bf16":
            found.append(problem(code, field, "cpu-bf16", severity="warning", mend=auto))
    elif asked == "bf16":
        lowest = lowest_capability(facts.devices)
        if lowest is not None and lowest < BF16_CAPABILITY:
            found.append(problem(code, field, "bf16", {"capability": f"{lowest[0]}.{lowest[1]}"}, mend=auto))
    if facts.dtype == "fp16" and facts.model is not None and facts.model.dtype == "bfloat16":
        found.append(problem(code, field, "fp16-on-bf16", severity="warning", mend={"train.precision": "fp32"}))
    return found


def gpus_available(facts: Facts) -> list[Problem]:
    """GPUs, or ranks, that were asked for and are not there."""
    asked, code = facts.spec.devices, "gpu-unavailable"
    usable = {gpu.uuid for gpu in visible_gpus(facts.host)}
    there = {gpu.uuid for gpu in visible_gpus(facts.host.model_copy(update={"visible": None}))}
    known = {gpu.uuid for gpu in facts.host.gpus if gpu.state == "lost"}
    found: list[Problem] = []
    for uuid in dict.fromkeys(asked.gpus):
        if uuid not in usable:
            away = "lost" if uuid in known else "hidden" if uuid in there else "unknown"
            variant = away if usable or away != "unknown" else "none"
            found.append(problem(code, "devices.gpus", variant, {"uuid": uuid[:60], "found": len(usable)}))
    if asked.count is None or found:
        return found
    if facts.devices.device == "cpu":
        most, variant = max(facts.host.cpu_count, 1), "cpu"
    else:
        most, variant = len(set(asked.gpus) & usable) if asked.gpus else len(usable_gpus(facts.host)), "count"
    if asked.count > most:
        params = {"asked": asked.count, "found": most}
        found.append(problem(code, "devices.count", variant, params, mend={"devices.count": most}))
    return found


def gpus_busy(facts: Facts) -> list[Problem]:
    """Told, not refused: it may be free by the time of Start, which looks again and refuses then."""
    found = []
    for name in facts.devices.names:
        holder = facts.host.held.get(name)
        if holder is not None:
            variant = "cpu" if name == "cpu" else None
            params = {"device": name, "run": holder}
            found.append(problem("gpu-busy", "devices.gpus", variant, params, severity="warning"))
    return found


def shared_memory(facts: Facts) -> list[Problem]:
    """Room in /dev/shm for several GPUs."""
    total = facts.host.shm_total
    if facts.devices.device != "cuda" or facts.devices.ranks < 2 or total is None or total >= SHM_LEAST:
        return []
    params = {"total": _gib(total), "least": _gib(SHM_LEAST)}
    return [problem("shm-too-small", None, params=params, severity="warning")]


def disk_space(facts: Facts) -> list[Problem]:
    """Room for what the run will write."""
    need = disk_needed(facts)
    if need is None or need <= facts.host.disk_free:
        return []
    params = {"need": _gib(need), "free": _gib(facts.host.disk_free)}
    return [problem("disk-space", "train.keep_checkpoints", params=params)]


def disk_needed(facts: Facts) -> int | None:
    """Bytes that the run will write: the result, and each checkpoint that is kept and one being written.

    A checkpoint of plain data parallel holds the trained weights and Adam's two states (8 bytes an element); one of
    ZeRO holds the weights twice (as the result is, and as DeepSpeed's own, which stage 3 leaves out) and 12 bytes of
    states an element (an fp32 copy and Adam's two), over all ranks together.
    """
    if facts.trainable is None or facts.model is None:
        return None
    width = 4 if facts.spec.zero.stage == "none" else DTYPE_BYTES[facts.dtype]
    need = facts.trainable * width
    if facts.spec.train.save_every is not None:
        held = width + 8 if facts.spec.zero.stage == "none" else 2 * width + 12
        need += (facts.spec.train.keep_checkpoints + 1) * facts.trainable * held
    if not facts.model.prepared and facts.model.parameters is not None:
        need += facts.model.parameters * 4
    return need


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 1 << 28 else f"{size / 2**20:.1f} MiB"


def model_good(facts: Facts) -> list[Problem]:
    """Code of its own, a missing chat template, a length that the model was not made for."""
    model, spec = facts.model, facts.spec
    if model is None:
        return []
    found = []
    name = {"model": model.name}
    if model.remote_code and not spec.model.trust_remote_code:
        trust = {"model.trust_remote_code": True}
        found.append(problem("remote-code", "model.trust_remote_code", params=name, mend=trust))
    if model.has_template is False:
        found.append(problem("template-missing", "model.path", params=name, severity="warning"))
    most = model.context_length
    if most is not None and spec.data.max_length > most:
        params = {"asked": spec.data.max_length, "most": most}
        mend = {"data.max_length": most}
        found.append(problem("value-range", "data.max_length", "context", params, severity="warning", mend=mend))
    return found


def packing_isolated(facts: Facts) -> list[Problem]:
    """Samples that share a row must not see each other."""
    model = facts.model
    if facts.spec.data.packing != "packed" or model is None or model.model_type not in RECURRENT:
        return []
    params = {"model": model.name, "type": model.model_type}
    return [problem("model-unsupported", "data.packing", "packing", params, mend={"data.packing": "grouped"})]


def targets_exist(facts: Facts) -> list[Problem]:
    """Names of LoRA's targets that no linear layer has."""
    method, model = facts.spec.method, facts.model
    if method.kind != "lora" or model is None or not model.linear_shapes or method.targets.strip() == "all-linear":
        return []
    names = [name.strip() for name in method.targets.split(",") if name.strip()]
    absent = [name for name in names or [method.targets] if not targeted(model.linear_shapes, name)]
    if facts.spec.zero.stage == "3":
        absent = [name for name in absent if name not in OUTSIDE]  # told by `whole_modules`
    if not absent:
        return []
    there = sorted({name.removesuffix(".weight").rpartition(".")[2] for name in model.linear_shapes})
    params = {"names": ", ".join(absent)[:120], "there": ", ".join(there[:12])}
    return [problem("value-range", "method.targets", "targets", params, mend={"method.targets": "all-linear"})]


def whole_modules(facts: Facts) -> list[Problem]:
    """Embeddings and the head are trained beside an adapter whole (`modules_to_save`): stage 3 saves those empty."""
    method = facts.spec.method
    asked = [name.strip() for name in method.targets.split(",") if name.strip() in OUTSIDE]
    if method.kind != "lora" or facts.spec.zero.stage != "3" or not asked:
        return []
    params: dict[str, Scalar] = {"names": ", ".join(asked)}
    return [problem("stage3-modules-to-save", "method.targets", params=params, mend={"method.targets": "all-linear"})]


def quantized_shards(facts: Facts) -> list[Problem]:
    """Stage 3 cuts buffers of the computation's type; weights that are packed into another do not survive that."""
    model = facts.model
    if model is None or model.quantized is None or facts.spec.zero.stage != "3":
        return []
    if model.storage is not None and DTYPE_NAMES.get(model.storage) == facts.dtype:
        return []
    params: dict[str, Scalar] = {
        "model": model.name, "method": model.quantized, "storage": model.storage or "uint8", "dtype": facts.dtype,
    }  # fmt: skip
    return [problem("stage3-quantized", "zero.stage", params=params)]


def paths_safe(facts: Facts) -> list[Problem]:
    """Folders of the operating system that hold no real files."""
    found = []
    for field, path in (("model.path", facts.spec.model.path), *data_rules.read_from(facts.spec.data)):
        try:
            real = Path(path).expanduser().resolve()
        except (OSError, ValueError, RuntimeError):  # no file can have this name; that it is missing is told elsewhere
            continue
        if any(real.is_relative_to(root) for root in PSEUDO) and not real.is_relative_to("/dev/shm"):
            found.append(problem("unsafe-path", field, params={"path": path[:120]}))
    return found


def ignored_choices(facts: Facts) -> list[Problem]:
    """What was chosen and has no effect here is told, never passed over."""
    spec, zero = facts.spec, facts.spec.zero
    found: list[tuple[str, str]] = []
    if not zero.gather_on_save:
        if zero.stage != "3":
            found.append(("zero.gather_on_save", "gather"))
        elif spec.method.kind == "lora":
            found.append(("zero.gather_on_save", "gather-lora"))
    if zero.stage == "none":
        found += [(f"zero.{name}", "stage-none") for name in zero_rules.changed(zero, ("overlap_comm", "bucket_size"))]
    elif zero.bucket_size is not None and facts.trainable is not None and zero.bucket_size > max(facts.trainable, 2):
        found.append(("zero.bucket_size", "bucket"))
    if spec.method.kind == "full":
        names = zero_rules.changed(spec.method, ("rank", "alpha", "dropout", "targets"))
        found += [(f"method.{name}", "lora") for name in names]
    if spec.train.save_every is None:
        found += [(f"train.{name}", "checkpoints") for name in zero_rules.changed(spec.train, ("keep_checkpoints",))]
    if spec.data.evaluation != spec.data.share:
        found.append(("data.evaluation", "measured"))
    if not spec.data.share and spec.data.mix.held_out is None:
        found += [(f"train.{name}", "evaluation") for name in zero_rules.changed(spec.train, ("evaluate_every",))]
    return [
        problem("ignored-choice", field, variant, {"field": field, "trainable": facts.trainable}, severity="warning")
        for field, variant in found
    ]


def gather_disabled(facts: Facts) -> list[Problem]:
    """A full model that will not be written as one."""
    zero = facts.spec.zero
    if zero.gather_on_save or zero.stage != "3" or facts.spec.method.kind != "full":
        return []
    return [problem("gather-disabled", "zero.gather_on_save", severity="warning", mend={"zero.gather_on_save": True})]


RULES: tuple[Rule, ...] = (
    offload_needs_stage,
    offload_toolchain,
    precision,
    gpus_available,
    gpus_busy,
    model_good,
    packing_isolated,
    targets_exist,
    whole_modules,
    quantized_shards,
    data_rules.data_good,
    data_rules.data_told_apart,
    data_rules.measured_good,
    paths_safe,
    disk_space,
    shared_memory,
    zero_rules.swaps,
    zero_rules.buffers,
    zero_rules.held_buffers,
    zero_rules.ratio,
    zero_rules.schedules,
    zero_rules.optimizer_compiles,
    stage_unneeded,
    gather_disabled,
    ignored_choices,
    zero_rules.without_effect,
)
"""All rules, in the order in which their problems are told."""
