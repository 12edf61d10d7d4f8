"""Reports: measured proof, data, verification, doctor. All frozen, all written whole."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from pydantic import JsonValue

from zeroboard.contract.base import Record
from zeroboard.contract.host import HostFacts
from zeroboard.contract.mix import PLAIN, Mix
from zeroboard.contract.plan import Decision, Promise, TokenFacts
from zeroboard.contract.problems import Problem, Scalar, Severity

Verdict = Literal["pass", "warn", "fail"]
CheckVerdict = Literal["pass", "warn", "fail", "skip"]

CHECK_NAMES = (
    "complete", "header", "size", "index", "shards", "shapes", "keys", "finite", "trained", "base", "tokenizer",
    "template", "config", "dtype", "unsafe-files", "partition", "load", "merge", "effect",
)  # fmt: skip
"""Names of the checks of a verification, in the order in which they are shown."""


class RankProof(Record):
    """What one rank really holds after its first optimizer step. Bytes."""

    rank: int
    host: str
    device: str
    """`cpu`, or a GPU's UUID."""
    pid: int
    engine: str
    """What the engine calls itself: `deepspeed`, or `ddp`."""
    stage: int
    """As the engine itself reports it; 0 for plain data parallel."""
    parameter_bytes: int
    gradient_bytes: int | None
    """None where it cannot be read after the step (released or reused by the engine)."""
    optimizer_bytes: int
    offloaded_bytes: int
    """Of these, held in the host's memory by offload."""
    nvme_bytes: int = 0
    """Of these, swapped to NVMe by offload."""
    frozen_released: bool | None = None
    """Stage 3: whether every frozen parameter was given back after use. None: none is frozen, or no stage 3."""
    peak_memory_bytes: int | None = None
    """GPU: the allocator's peak; CPU: the process's largest resident size."""


ProofVerdict = Literal["in effect", "partly", "not in effect"]


class Proof(Record):
    """Measured per rank against what the stage promises."""

    ranks: tuple[RankProof, ...]
    expected: Promise | None
    verdict: ProofVerdict
    says: str
    """Key of the sentence of the reason."""
    params: dict[str, Scalar] = {}
    seen: dict[int, bool] = {}
    """Rank → whether NVML saw its process on its GPU; absent where NVML cannot tell (the CPU, no reading yet)."""


class Check(Record):
    """One check of a verification."""

    name: str
    verdict: CheckVerdict
    says: str
    """Key of the sentence of the detail; it names the culprit."""
    params: dict[str, Scalar] = {}


Kind = Literal["lora-adapter", "full-model", "zero-checkpoint", "fsdp-checkpoint", "unknown"]


class VerifyReport(Record):
    """What is in a folder, and is it sound."""

    path: str
    kind: Kind
    verdict: Verdict
    checks: tuple[Check, ...]
    facts: dict[str, JsonValue] = {}


class MergeReport(Record):
    """An adapter went into its base."""

    path: str
    """The folder of the merged model."""
    base: str
    tensors: int
    changed: int
    """Of these, those that are not the base's own."""
    bytes: int
    files: tuple[str, ...]
    """Those with weights."""
    seconds: float
    notes: tuple[Problem, ...] = ()
    """To be told; nothing stood in the way."""


class Consolidation(Record):
    """What the verb `consolidate` has written."""

    path: str
    """The folder."""
    kind: Kind
    """`full-model` or `lora-adapter`."""
    files: tuple[str, ...]
    """The files of weights, in order."""
    tensors: int
    parameters: int
    bytes: int
    """Of the tensors."""
    dtype: Literal["bf16", "fp16", "fp32"]
    stage: int
    world_size: int
    step: int | None
    deepspeed: str | None
    """The version that wrote the checkpoint."""
    seconds: float


def overall(checks: Iterable[Check | DoctorCheck]) -> Verdict:
    """The worst of the checks; a skipped one says nothing."""
    verdicts = {c.verdict for c in checks}
    return "fail" if "fail" in verdicts else "warn" if "warn" in verdicts else "pass"


DataFormat = Literal["alpaca", "sharegpt", "messages", "prompt-completion", "text", "preference", "unknown"]
"""What the records of a data file are."""

TRAINABLE_FORMATS: frozenset[DataFormat] = frozenset({"alpaca", "sharegpt", "messages", "prompt-completion", "text"})
"""Of these, what is trained on."""


class DataProblem(Record):
    """One kind of problem in a data file, with where it occurs."""

    code: str
    severity: Severity
    count: int
    rows: tuple[int, ...] = ()
    """First 20 record numbers, from 1."""
    excerpt: str | None = None
    """The beginning of the first of these records, in one line and without what a terminal would obey."""
    says: str | None = None
    params: dict[str, Scalar] = {}
    file: str | None = None
    """The one file of several that it is about; None: there is one only, or it is about rows, which are numbered
    through all of them."""

    @property
    def message_key(self) -> str:
        return self.says or f"data.{self.code}"


class DataFile(Record):
    """One of several files of data: of a folder, or of a mix."""

    name: str
    """Below its folder; where several are mixed, its own name, or its path where two have the same."""
    format: DataFormat
    first: int
    """Number of its first record; records are numbered through all files."""
    rows: int
    usable: int = 0
    changed: int = 0
    """Of the usable ones."""
    part: int = 0
    """Which of the mix it belongs to: 0 for `data.path`, then `data.more`."""

    @property
    def refused(self) -> int:
        return self.rows - self.usable


class DataReport(Record):
    """A data file, a folder of them, or several of these together, judged."""

    path: str
    format: DataFormat
    """Of the first file."""
    encoding: str
    """Of all files; several are parted by commas."""
    total: int
    usable: int
    refused: int
    changed: int
    problems: tuple[DataProblem, ...] = ()
    files: tuple[DataFile, ...] = ()
    """Of a folder or of a mix; empty for a single file."""
    columns: tuple[str, ...] = ()
    """What the columns of the first records are called in the file; empty where they have no names."""
    commit: str | None = None
    """Of the hub's repository that it came from; None: not from a hub."""
    commits: dict[str, str] = {}
    """The same of what is mixed with it or measured, by its name."""
    mix: Mix = PLAIN
    """What was judged together with it, by absolute paths; their weights are no matter here."""
    evaluation: DataReport | None = None
    """The evaluation file, its rows numbered for themselves; None: there is none."""
    overlap: int = 0
    """Of the evaluation file: usable rows that are trained on as well."""
    tokens: TokenFacts | None = None
    """As the model sees it; None: no model was asked, or something stands in the way."""
    suggestion: Decision | None = None
    """A maximum length for this data; None: see `tokens`."""

    @property
    def trainable(self) -> bool:
        """Something in it can be trained on."""
        return self.usable > 0 and self.format in TRAINABLE_FORMATS

    @property
    def share_refused(self) -> float:
        """Refused records in all of them, 0 to 1, rounded up to a thousandth: what a person accepts."""
        return math.ceil(1000 * self.refused / self.total) / 1000 if self.total else 0.0


class DoctorCheck(Record):
    """One line of `zeroboard doctor`."""

    name: str
    verdict: CheckVerdict
    says: str
    params: dict[str, Scalar] = {}

    @property
    def remedy_key(self) -> str:
        return f"{self.says}.remedy"


class DoctorReport(Record):
    """What this machine has."""

    verdict: Verdict
    checks: tuple[DoctorCheck, ...]
    host: HostFacts
