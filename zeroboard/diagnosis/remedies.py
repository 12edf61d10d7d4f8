"""The table of remedies: what to do about a finding, the first thing first, with the fields that would do it.

The order for a full GPU is that of least harm: smaller micro-batches (the global batch stays) → activation
checkpointing → offload → tensors that are kept alive → shorter rows → a higher stage → fewer trained parameters.
"""

from __future__ import annotations

from collections.abc import Callable

from zeroboard.contract.findings import Remedy
from zeroboard.contract.problems import Scalar
from zeroboard.contract.spec import RunSpec, fields

Fields = dict[str, Scalar]
Mend = Callable[[RunSpec | None], Fields | None]
"""From the run's spec (None: a log from elsewhere) to the fields; an empty dict: nothing is left to set, leave it out;
None: nothing that a field can do."""

SHORTEST = 128
"""Tokens; a maximum length is not halved below it."""
_BOUNDS = {facts.key: int(facts.le) for facts in fields() if facts.kind == "integer" and facts.le is not None}
MOST_SAMPLES, MOST_PASSES = _BOUNDS["train.micro_batch"], _BOUNDS["train.accumulation"]
MOST_ELEMENTS = _BOUNDS["zero.bucket_size"]


def by_hand(spec: RunSpec | None) -> Fields | None:
    """No field does it."""
    return None


def smaller_batches(spec: RunSpec | None) -> Fields | None:
    """Half the micro-batch, twice the accumulation: the global batch stays."""
    if spec is None:
        return None
    micro, passes = spec.train.micro_batch, spec.train.accumulation
    if micro == 1:
        return {}
    half = micro // 2
    more = -(-micro * passes // half)
    return {"train.micro_batch": half, "train.accumulation": more} if more <= MOST_PASSES else {}


def larger_batches(spec: RunSpec | None) -> Fields | None:
    """Twice the micro-batch, half the accumulation: the global batch stays, or grows where that is odd."""
    if spec is None:
        return None
    double, fewer = 2 * spec.train.micro_batch, -(-spec.train.accumulation // 2)
    return {"train.micro_batch": double, "train.accumulation": fewer} if double <= MOST_SAMPLES else {}


def checkpointing(spec: RunSpec | None) -> Fields | None:
    return {} if spec is not None and spec.train.activation_checkpointing else {"train.activation_checkpointing": True}


def offload(spec: RunSpec | None) -> Fields | None:
    """The next more that can be kept in the host's memory."""
    if spec is None or spec.zero.stage == "none":
        return {"zero.stage": "2", "zero.offload": "optimizer"}
    if spec.zero.offload == "none":
        return {"zero.offload": "optimizer"}
    return {"zero.offload": "all"} if spec.zero.offload == "optimizer" and spec.zero.stage == "3" else {}


def no_offload(spec: RunSpec | None) -> Fields | None:
    return {} if spec is not None and spec.zero.offload == "none" else {"zero.offload": "none"}


def shorter_rows(spec: RunSpec | None) -> Fields | None:
    if spec is None:
        return None
    return {"data.max_length": spec.data.max_length // 2} if spec.data.max_length >= 2 * SHORTEST else {}


def higher_stage(spec: RunSpec | None) -> Fields | None:
    if spec is None:
        return {"zero.stage": "3"}
    following: dict[str, str] = {"none": "2", "1": "2", "2": "3"}
    return {"zero.stage": following[spec.zero.stage]} if spec.zero.stage in following else {}


def lora(spec: RunSpec | None) -> Fields | None:
    return {} if spec is not None and spec.method.kind == "lora" else {"method.kind": "lora"}


def lower_rate(spec: RunSpec | None) -> Fields | None:
    return None if spec is None else {"train.learning_rate": spec.train.learning_rate / 10}


def clipping(spec: RunSpec | None) -> Fields | None:
    return {"train.max_grad_norm": 1.0} if spec is None or not 0 < spec.train.max_grad_norm <= 1 else {}


def bf16(spec: RunSpec | None) -> Fields | None:
    return {} if spec is not None and spec.train.precision == "bf16" else {"train.precision": "bf16"}


def fp32(spec: RunSpec | None) -> Fields | None:
    return {} if spec is not None and spec.train.precision == "fp32" else {"train.precision": "fp32"}


def any_precision(spec: RunSpec | None) -> Fields | None:
    return {} if spec is not None and spec.train.precision == "auto" else {"train.precision": "auto"}


def no_overlap(spec: RunSpec | None) -> Fields | None:
    return {} if spec is not None and not spec.zero.overlap_comm else {"zero.overlap_comm": False}


def overlap(spec: RunSpec | None) -> Fields | None:
    """Without a stage there is nothing to switch: plain DDP overlaps already."""
    if spec is not None and (spec.zero.stage == "none" or spec.zero.overlap_comm):
        return {}
    return {"zero.overlap_comm": True}


def larger_buckets(spec: RunSpec | None) -> Fields | None:
    """Twice as large, where a size was asked for; what is chosen by itself is as large as the model allows."""
    if spec is None or spec.zero.bucket_size is None:
        return None
    double = 2 * spec.zero.bucket_size
    return {"zero.bucket_size": double} if spec.zero.stage != "none" and double <= MOST_ELEMENTS else {}


def gather(spec: RunSpec | None) -> Fields | None:
    return {"zero.gather_on_save": True}


def lower_stage(spec: RunSpec | None) -> Fields | None:
    """Stage 1 keeps gradients whole, so they may be added up without a synchronisation."""
    return {} if spec is not None and spec.zero.stage in ("none", "1") else {"zero.stage": "1"}


def fewer_checkpoints(spec: RunSpec | None) -> Fields | None:
    return {} if spec is not None and spec.train.keep_checkpoints == 1 else {"train.keep_checkpoints": 1}


def every_gpu(spec: RunSpec | None) -> Fields | None:
    return None if spec is None or (spec.devices.count is None and not spec.devices.gpus) else {"devices.count": None}


_MEMORY: tuple[tuple[str, Mend], ...] = (
    ("smaller-batches", smaller_batches),
    ("checkpointing", checkpointing),
    ("offload", offload),
    ("kept-tensors", by_hand),
    ("shorter-rows", shorter_rows),
    ("higher-stage", higher_stage),
    ("lora", lora),
)

REMEDIES: dict[str, tuple[tuple[str, Mend], ...]] = {
    "cuda-oom": _MEMORY,
    "cuda-oom.fragmented": (("expandable-segments", by_hand), *_MEMORY),
    "host-oom": (("no-offload", no_offload), ("shorter-rows", shorter_rows), ("free-memory", by_hand)),
    "killed-by-signal": (("who-killed", by_hand), ("no-offload", no_offload)),
    "killed-by-signal.crash": (("crash", by_hand), ("doctor", by_hand)),
    "killed-by-signal.told": (("keep-alive", by_hand), ("resume", by_hand)),
    "stopped-by-user": (("resume", by_hand),),
    "port-in-use": (("free-port", by_hand),),
    "collective-timeout": (("which-rank", by_hand), ("network", by_hand), ("no-overlap", no_overlap)),
    "p2p-unsupported": (("no-p2p", by_hand),),
    "op-build-failed": (("toolchain", by_hand), ("no-offload", no_offload)),
    "cuda-mismatch": (("match-cuda", by_hand), ("no-offload", no_offload)),
    "shm-too-small": (("more-shm", by_hand),),
    "batch-mismatch": (("batch-product", by_hand),),
    "config-rejected": (("judge-config", by_hand),),
    "offload-optimizer": (("own-optimizer", by_hand), ("no-offload", no_offload)),
    "overflow-loop": (("bf16", bf16), ("fp32", fp32), ("lower-rate", lower_rate)),
    "loss-zero": (("bf16", bf16), ("no-overlap", no_overlap), ("labels", by_hand)),
    "loss-nan": (("lower-rate", lower_rate), ("bf16", bf16), ("clipping", clipping), ("no-overlap", no_overlap)),
    "no-sync-accumulation": (("lower-stage", lower_stage), ("update-versions", by_hand)),
    "world-size-changed": (("same-ranks", by_hand), ("weights-only", by_hand)),
    "unsafe-load-refused": (("trusted-file", by_hand),),
    "unsafe-load-refused.remote-code": (("read-code", by_hand),),
    "disk-full": (("make-room", by_hand), ("fewer-checkpoints", fewer_checkpoints)),
    "shape-mismatch": (("matching-model", by_hand),),
    "shape-mismatch.index": (("matching-tokenizer", by_hand),),
    "weights-corrupt": (("fetch-again", by_hand),),
    "weights-not-gathered": (("gather", gather), ("consolidate", by_hand)),
    "driver-mismatch": (("reboot", by_hand), ("doctor", by_hand)),
    "gpu-lost": (("look-at-gpu", by_hand), ("resume", by_hand)),
    "tokenization-mismatch": (("matching-template", by_hand),),
    "dependency-missing": (("install", by_hand),),
    "dependency-version": (("update-versions", by_hand),),
    "model-missing": (("model-path", by_hand),),
    "model-missing.gated": (("ask-access", by_hand),),
    "hub-unreachable": (("local-model", by_hand),),
    "template-refused": (("judge-data", by_hand),),
    "data-refused": (("judge-data", by_hand),),
    "data-worker-died": (("free-memory", by_hand), ("judge-data", by_hand)),
    "gpu-unavailable": (("doctor", by_hand), ("every-gpu", every_gpu)),
    "precision-unsupported": (("any-precision", any_precision), ("fp32", fp32)),
    "no-training-happened": (("judge-data", by_hand),),
    "no-training-happened.still": (("labels", by_hand), ("bf16", bf16), ("no-overlap", no_overlap)),
    "stalled": (("which-rank", by_hand),),
    "stalled.behind": (("read-stack", by_hand), ("network", by_hand), ("no-overlap", no_overlap)),
    "stalled.silent": (("stopped-process", by_hand), ("read-stack", by_hand)),
    "stalled.together": (("read-stack", by_hand), ("network", by_hand), ("no-overlap", no_overlap)),
    "gpu-throttled": (("cool-gpu", by_hand),),
    "gpu-throttled.hardware": (("look-at-gpu", by_hand),),
    "gpu-throttled.power": (("power-limit", by_hand),),
    "gpu-idle": (
        ("larger-batches", larger_batches),
        ("overlap", overlap),
        ("faster-network", by_hand),
        ("larger-buckets", larger_buckets),
    ),
    "gpu-memory-full": _MEMORY,
    "gpu-foreign": (("other-process", by_hand),),
    "benign": (),
    "python-exception": (("read-traceback", by_hand),),
    "python-exception.echo": (("other-logs", by_hand),),
    "python-exception.silent": (("other-logs", by_hand),),
}
"""Rule (its code, or code and variant) → (name of the remedy, what sets its fields)."""


def remedies(key: str, spec: RunSpec | None) -> tuple[Remedy, ...]:
    """What to do, in order; what the spec has already is left out."""
    found = []
    for name, mend in REMEDIES.get(key, ()):
        fields = mend(spec)
        if fields != {}:
            found.append(Remedy(says=f"remedy.{name}", set=fields))
    return tuple(found)
