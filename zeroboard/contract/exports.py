"""Exports: what was wished, how far it is, and what was delivered. Kept in `cache/exports/.jobs/<id>/`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from zeroboard.contract.base import Record
from zeroboard.contract.plan import Dtype
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.contract.reports import Kind, VerifyReport
from zeroboard.contract.state import ProcessMark

GB = 1_000_000_000

SHARD_BYTES = 5 * GB
"""Where a file of weights ends, if nothing else is asked for."""

LEAST_SHARD = 1_000_000
"""Smaller files of weights than this are refused: a model would fall into thousands of them."""

GGUF_TYPES = ("f32", "f16", "bf16", "q8_0", "auto")
"""What llama.cpp's converter writes by itself. Any other type needs its `llama-quantize` too."""

Source = Literal["lora-adapter", "full-model", "zero-checkpoint"]
"""Kinds of folder that can be exported."""


class ExportWish(Record):
    """`wish.json`: what a person asked for. Never a token."""

    word: str
    """What they named: a run, a checkpoint of one, a folder."""
    path: str
    """The folder that is meant, absolute."""
    kind: Source
    run_id: str | None = None
    """The run that it came out of; None for a folder from elsewhere."""
    base: str | None = None
    """Of an adapter, where it is not where its config says; of a full model, the one that it was before training."""
    target: str
    """The folder to write, absolute; appears whole or not at all."""
    merge: bool = False
    dtype: Dtype | None = None
    """None: as it is (ZeRO states: bf16)."""
    shard_bytes: int = Field(default=SHARD_BYTES, ge=LEAST_SHARD)
    gguf: str | None = None
    """Type of a GGUF file beside the weights; None: none."""
    llama_cpp: str | None = None
    """A person's own checkout of llama.cpp."""
    push: str | None = None
    """Repository on the hub, `OWNER/NAME`."""
    public: bool = False
    """A repository that is made for it can be seen by everybody."""
    trust_pickles: bool = False
    """ZeRO states of a folder from elsewhere may be opened (with an allow-list; nothing in them is run)."""
    trust_remote_code: bool = False
    language: Literal["en", "zh-CN"] = "en"
    """Of the model card."""


class Delivered(Record):
    """A file of the result."""

    name: str
    """Relative to the folder."""
    bytes: int


class ExportReport(Record):
    """`report.json`: what was written, and whether it is sound."""

    path: str
    kind: Kind
    """`lora-adapter` or `full-model`."""
    dtype: str | None
    """Of most weights, as safetensors names it."""
    files: tuple[Delivered, ...]
    stops: tuple[str, ...] = ()
    """The tokens that end an answer, as text."""
    notes: tuple[Problem, ...] = ()
    """To be told; nothing stood in the way."""
    verification: VerifyReport
    gguf: str | None = None
    """Name of the GGUF file."""
    pushed: str | None = None
    """Address of the repository."""
    seconds: float

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


ExportStage = Literal["running", "finished", "failed", "cancelled", "lost"]
"""`failed`: nothing was delivered, or what was delivered did not pass its verification; the problems say which."""

ExportPhase = Literal["start", "weights", "gguf", "check", "push"]


class ExportState(Record):
    """`state.json`: how far it is; replaced whole."""

    id: str
    state: ExportStage = "running"
    created: float
    """Seconds since the epoch, like every time here."""
    ended: float | None = None
    process: ProcessMark | None = None
    """Who does the work."""
    host: str = ""
    """The machine on which."""
    phase: ExportPhase = "start"
    done: float | None = None
    """0 to 1 within the phase; None: not known."""
    says: str | None = None
    params: dict[str, Scalar] = {}
    problems: tuple[Problem, ...] = ()
    """Why it failed."""
