"""The plan: what was decided for a spec, and why. Preview shows it and Start runs it, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue, ValidationError

from zeroboard.contract.base import Record
from zeroboard.contract.mix import PLAIN, Mix
from zeroboard.contract.problems import Problem, errors
from zeroboard.contract.spec import MethodKind, Offload, Schedule, Stage
from zeroboard.files import sha256_text, to_json

Device = Literal["cpu", "cuda"]
Backend = Literal["gloo", "nccl"]
Dtype = Literal["bf16", "fp16", "fp32"]

TOKENS_VERSION = 3
"""Raised whenever reading, rendering, masking or the layout of the tokens changes; part of the tokens' key."""

DTYPE_BYTES: dict[Dtype, int] = {"bf16": 2, "fp16": 2, "fp32": 4}


class Batch(Record):
    """micro × accumulation × ranks = global, in samples."""

    micro: int
    accumulation: int
    gpus: int
    """Ranks: one a GPU, or processes on the CPU."""

    @property
    def total(self) -> int:
        return self.micro * self.accumulation * self.gpus


class Decision(Record):
    """An automatic choice, with its reason; shown to the user."""

    field: str
    value: JsonValue
    says: str
    """Key of the sentence of the reason."""
    params: dict[str, str | int | float | bool | None] = {}


class ModelFacts(Record):
    """A model as its `config.json` and safetensors headers tell it; None: not known yet."""

    path: str
    """The folder (absolute)."""
    name: str
    architecture: str | None = None
    model_type: str | None = None
    parameters: int | None = None
    """Elements, tied weights counted once."""
    dtype: str | None = None
    context_length: int | None = None
    vocabulary: int | None = None
    layers: int | None = None
    hidden: int | None = None
    has_template: bool | None = None
    licence: str | None = None
    size: int | None = None
    """Bytes of the weight files."""
    quantized: str | None = None
    """How its weights are quantised (`bitsandbytes`, `gptq` …); None: they are not."""
    storage: str | None = None
    """The type in which quantised weights are stored; None: not told, or not quantised."""
    remote_code: bool = False
    commit: str | None = None
    """Of the hub's repository that it came from; None: not from a hub."""
    prepared: bool = True
    """False: bundled, and still to be converted by the first start."""
    linear_shapes: dict[str, tuple[int, int]] = {}
    """Name of each linear layer's weight inside the blocks → (out, in); what LoRA's `all-linear` aims at."""
    tensor_sizes: dict[int, int] = {}
    """Elements of a tensor → how many tensors are of that size, tied weights counted once."""


class Bin(Record):
    """A bar of the histogram of lengths."""

    start: int
    end: int
    """Tokens, both ends included."""
    rows: int


class PartTokens(Record):
    """What one of several files gives."""

    rows: int
    """Samples of it that are there to be trained on."""
    seen: int
    """How often samples of it are seen in an epoch, by its weight."""
    tokens: int
    """In an epoch."""
    learned: int


class HeldTokens(Record):
    """What tokenising the evaluation file gave, besides the samples that are measured."""

    overlap: int
    """Rows left out because they are trained on as well."""
    left_out: int
    """Rows left out because the template refuses them, or because nothing in them is learned."""
    truncated: int
    """Rows that are cut to the maximum length."""


class TokenFacts(Record):
    """What tokenising the data gave; the plan takes it as a value."""

    key: str
    """Content hash: data, model's tokenizer and template, maximum length. The folder's name in `cache/tokens/`."""
    rows: int
    """Samples that an epoch trains on; one of a file with a weight above 1 counts as often as it is seen."""
    evaluation: int = 0
    """Samples that are held out; none of them is exactly like one that is trained on."""
    parts: tuple[PartTokens, ...] = ()
    """Of a mix: each of its files, the first of them first; empty for a single file that is seen once."""
    held: HeldTokens | None = None
    """None: there is no evaluation file."""
    tokens: int
    """Of the samples that an epoch trains on."""
    learned: int
    """Tokens with a loss: the assistant's answers and their end token."""
    longest: int
    """Before cutting, in tokens."""
    truncated: int
    end_token_lost: int
    without_trainable: int
    """Rows left out because nothing in them is learned."""
    packed: int = 0
    """Rows that the samples that are trained on take where they are packed."""
    p99: int = 0
    """At most so many tokens have 99 of 100 rows, before cutting."""
    highest: int = -1
    """The largest token id; -1: there is none."""
    refused: int = 0
    """Rows left out because the template refuses them."""
    refusal: str = ""
    """Why it refused the first of them, in its own words."""
    folded: int = 0
    """Rows, not changed otherwise, whose system turn became a part of the first question."""
    unended: int = 0
    """Rows with an answer that the template ends with no token."""
    named: dict[str, tuple[int, ...]] = {}
    """The first 20 record numbers of each kind: `truncated`, `end-token-lost`, `no-trainable-tokens`,
    `template-refused`, `folded`, `unended`."""
    histogram: tuple[Bin, ...] = ()
    """Of the lengths before cutting."""
    template: Literal["model", "chatml"]


TOKENS_MANIFEST = "manifest.json"
"""Holds the `TokenFacts` of a folder of tokens; written last, so a folder without it is not whole."""


def read_tokens(folder: Path) -> TokenFacts | None:
    """What lies in a folder of tokens; None where there is nothing whole, or nothing of this version."""
    try:
        return TokenFacts.model_validate_json((folder / TOKENS_MANIFEST).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None


class Promise(Record):
    """Bytes that a stage promises to hold on each rank, outside of computing; see `zero/promise`."""

    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    offloaded_bytes: int
    """Of the above, those that lie in the host's memory instead of the GPU's."""
    nvme_bytes: int = 0
    """Of the above, those that are swapped to a disk; not counted as offloaded to memory."""
    swaps: bool = False
    """Something was to be swapped to a disk, even where all of it is too small for that."""


class Resolved(Record):
    """What the engine needs to know beyond the spec; every value decided, none left open."""

    device: Device
    backend: Backend
    dtype: Dtype
    """Type of the computation (and of the model's weights)."""
    stage: Stage
    offload: Offload
    method: MethodKind
    schedule: Schedule
    batch: Batch
    model_path: str
    """Absolute folder."""
    model_name: str
    """As the user named it; prepared by the first start where it is a bundled one."""
    data_path: str
    """Absolute file."""
    mix: Mix = PLAIN
    """What is trained on, or measured, besides; by absolute paths."""
    data_format: str
    tokens_key: str
    """Where the tokens lie or will lie, under `cache/tokens/`."""
    steps: int | None
    """Optimizer steps; None: unknown until tokenised."""
    save_every: int | None
    deepspeed_config: str | None
    """Name of the DeepSpeed file in the run's folder; None for stage none."""
    gpus: tuple[str, ...] = ()
    """UUIDs, in rank order; empty on the CPU."""
    threads: int
    """CPU threads a rank."""
    nodes: int = 1
    """Machines; the ranks are spread over them evenly."""


class Plan(Record):
    """Everything that Start would do."""

    run_id: str | None = None
    """None while nothing was written."""
    folder: str | None = None
    argv: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """What is set for the launcher. Never a secret: those are inherited."""
    scrubbed: tuple[str, ...] = ()
    """Inherited variables that are taken away."""
    files: dict[str, str] = {}
    """Name in the run's folder → content."""
    files_hash: str = ""
    """SHA-256 over names and contents of `files`."""
    batch: Batch
    resolved: Resolved | None = None
    """None where errors stand in the way."""
    model: ModelFacts | None = None
    tokens: TokenFacts | None = None
    promise: Promise | None = None
    """None where the model's shapes are not known yet."""
    disk_bytes: int | None = None
    """Bytes that the run will write; None where the model's shapes are not known yet."""
    decisions: tuple[Decision, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        return not errors(self.problems)


def hash_files(files: dict[str, str]) -> str:
    """One hash for a set of files: of the sorted list of (name, hash of content)."""
    return sha256_text(json.dumps(sorted((name, sha256_text(content)) for name, content in files.items())))


def hash_plan(plan: Plan) -> str:
    """One hash for the whole plan as it is written: command, environment, files and all that was resolved."""
    return sha256_text(to_json(plan_json(plan)))


def plan_json(plan: Plan) -> dict[str, Any]:
    """The plan as it is written and printed; the batch with its product named `global`."""
    value = plan.model_dump(mode="json")
    value["batch"]["global"] = plan.batch.total
    value["forecast"] = None
    return value
