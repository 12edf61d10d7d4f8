"""Findings are values: why a run failed or learnt nothing, the line that shows it, what would mend it."""

from __future__ import annotations

from zeroboard.contract.base import Record
from zeroboard.contract.problems import Scalar, Severity

FINDING_CODES = (
    "cuda-oom",
    "host-oom",
    "killed-by-signal",
    "stopped-by-user",
    "port-in-use",
    "collective-timeout",
    "p2p-unsupported",
    "op-build-failed",
    "cuda-mismatch",
    "shm-too-small",
    "batch-mismatch",
    "config-rejected",
    "offload-optimizer",
    "overflow-loop",
    "loss-zero",
    "loss-nan",
    "no-sync-accumulation",
    "world-size-changed",
    "unsafe-load-refused",
    "disk-full",
    "shape-mismatch",
    "weights-corrupt",
    "weights-not-gathered",
    "driver-mismatch",
    "gpu-lost",
    "tokenization-mismatch",
    "dependency-missing",
    "dependency-version",
    "model-missing",
    "hub-unreachable",
    "template-refused",
    "data-refused",
    "data-worker-died",
    "gpu-unavailable",
    "precision-unsupported",
    "no-training-happened",
    "stalled",
    "gpu-throttled",
    "gpu-idle",
    "gpu-memory-full",
    "gpu-foreign",
    "benign",
    "python-exception",
)
"""What a log, or a look at a live run, can show; a run's own problem (a failed verification, a changed plan) keeps the
code of that problem."""


class Evidence(Record):
    """The line that shows it."""

    file: str
    """Its name; within a folder, the path from there."""
    line: int | None
    """From 1; only a newline ends a line. None: not about one line."""
    text: str
    """Without colours, cut."""


class Remedy(Record):
    """One thing to do."""

    says: str
    params: dict[str, Scalar] = {}
    set: dict[str, Scalar] | None = None
    """Fields of the spec with the values that would mend it: a button. None: nothing that a field can do."""


class Finding(Record):
    """One thing that was found."""

    code: str
    severity: Severity = "error"
    rank: int | None = None
    """None: no single rank's, or not known."""
    evidence: Evidence | None = None
    says: str
    """Key of its sentence."""
    params: dict[str, Scalar] = {}
    remedies: tuple[Remedy, ...] = ()
    """The first is the one to try first."""
    echoes: int = 0
    """How many further lines and failures follow from it."""


class Diagnosis(Record):
    """Everything that was found, the root cause first."""

    root: str | None
    """Code of the root cause; None: there is nothing, or nothing but noise."""
    findings: tuple[Finding, ...] = ()
