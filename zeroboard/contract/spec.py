"""The run's specification: what the user asked. Its Field metadata is the one table of fields.

Defaults, bounds, units, what is advanced and the keys of labels and hints live here and nowhere else: the form,
`--set`, the documentation and the translation test read them through `fields()`.

Labels and hints are sentences `field.<dotted key>.label` and `field.<dotted key>.hint` of the language files; those of
a choice are `field.<dotted key>.choice.<value>`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BeforeValidator, Field
from pydantic.fields import FieldInfo

from zeroboard.contract.base import Part
from zeroboard.contract.mix import DataPart, Mix

Stage = Literal["none", "1", "2", "3"]
Offload = Literal["none", "optimizer", "all"]
MethodKind = Literal["lora", "full"]
Precision = Literal["auto", "bf16", "fp16", "fp32"]
Schedule = Literal["linear", "cosine", "constant"]
Packing = Literal["none", "grouped", "packed"]
Column = Literal[
    "instruction", "input", "output", "system", "history", "messages", "conversations", "tools", "text"
]  # fmt: skip
"""What a column of a data file can mean."""
Place = Literal["cpu", "nvme"]
Switch = Literal["auto", "on", "off"]
OptimizerMaker = Literal["trainer", "deepspeed"]
SchedulerMaker = Literal["trainer", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"]
WarmupCurve = Literal["log", "linear"]

ELEMENTS = 10**12
"""Most elements of any size: beyond every model."""
HEAVIEST = 100.0
"""Most times that the rows of a file are seen in an epoch."""
MOST_MIXED = 12
"""Files besides the first; a folder holds as many as one likes."""


def _as_word(value: object) -> object:
    """YAML reads `stage: 2` as a number; the choices are words."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_switch(value: object) -> object:
    """YAML reads `on` and `off` as true and false."""
    return ("on" if value else "off") if isinstance(value, bool) else value


def _as_chosen(value: object) -> object:
    """A column that is left empty is not chosen."""
    return {key: name for key, name in value.items() if name not in ("", None)} if isinstance(value, dict) else value


def _as_files(value: object) -> object:
    """A file that is seen once may be written as its path alone."""
    return [{"path": one} if isinstance(one, str) else one for one in value] if isinstance(value, list) else value


def option(default: Any = ..., /, *, unit: str | None = None, advanced: bool = False, **bounds: Any) -> Any:
    """A field of the spec with what the table of fields wants to know about it."""
    return Field(default, json_schema_extra={"unit": unit, "advanced": advanced}, **bounds)


class ModelSpec(Part):
    """Which model is trained."""

    path: str = option(min_length=1)
    """The name of a bundled model, a local folder, or `hub:owner/name[@revision]` (`ms:…` for ModelScope). No folder is
    looked up on a hub."""
    trust_remote_code: bool = option(False, advanced=True)
    """Run Python code that comes with the model. Off unless asked for this model."""


Columns = Annotated[dict[Column, str], BeforeValidator(_as_chosen)]


class MixedFile(Part):
    """A further data file."""

    path: str = option(min_length=1)
    """As `data.path`."""
    weight: float = option(1.0, gt=0.0, le=HEAVIEST)
    """As `data.weight`."""
    columns: Columns = option({})
    """As `data.columns`."""


class DataSpec(Part):
    """What it learns from."""

    path: str = option(min_length=1)
    """The name of a bundled data set, a local file or folder (JSON, JSONL, CSV, Parquet or text, packed or not), or
    `hub:owner/name[@revision][/file]`. No path is looked up on a hub."""
    columns: Columns = option({}, advanced=True)
    """What its columns mean where their names do not say it: what is read here → what the column is called there."""
    weight: float = option(1.0, gt=0.0, le=HEAVIEST, advanced=True)
    """How many times its rows are seen in an epoch: 2 is twice, 0.5 half of them, chosen by the seed."""
    more: Annotated[tuple[MixedFile, ...], BeforeValidator(_as_files)] = option(
        (), max_length=MOST_MIXED, advanced=True
    )
    """Further files that are trained on together with it, each a path alone or `{path, weight, columns}`."""
    max_length: int = option(1024, unit="tokens", ge=8, le=1_048_576)
    """Longer conversations are cut to this many tokens."""
    evaluation: float = option(0.0, ge=0.0, le=0.5)
    """Share of the rows that is held out: not trained on, their loss is measured instead. 0: none."""
    eval_path: str = option("", max_length=4096)
    """A file of its own that is not trained on, read with `columns`: its loss is measured instead of `evaluation`'s."""
    accept_refused: float = option(0.01, ge=0.0, le=1.0, advanced=True)
    """Share of the records that may be unusable; where more are, the run is refused until a person accepts it."""
    packing: Packing = option("none", advanced=True)
    """How samples of unlike length share a batch: padded as they come, with others of like length, or several in one
    row of the maximum length, none of which sees another."""

    @property
    def chosen(self) -> dict[str, str]:
        """`columns`, for those who read them as texts."""
        return {str(name): column for name, column in self.columns.items()}

    @property
    def share(self) -> float:
        """Share of the rows that is held out: none where a file of its own is measured."""
        return 0.0 if self.eval_path.strip() else self.evaluation

    @property
    def mix(self) -> Mix:
        """What there is besides `path`, by the paths as they were written."""
        more = tuple(
            DataPart(path=one.path, weight=one.weight, columns={str(ours): name for ours, name in one.columns.items()})
            for one in self.more
        )
        measured = self.eval_path.strip()
        held_out = DataPart(path=measured, columns=self.chosen) if measured else None
        return Mix(weight=self.weight, more=more, held_out=held_out)


class MethodSpec(Part):
    """How it is trained: a few new parameters (LoRA) or all of them."""

    kind: MethodKind = option("lora")
    rank: int = option(8, ge=1, le=1024)
    """LoRA: the inner size of each pair of matrices."""
    alpha: int = option(16, ge=1, le=4096)
    """LoRA: the update is scaled by alpha / rank."""
    dropout: float = option(0.0, ge=0.0, lt=1.0, advanced=True)
    """LoRA: share of the adapter's inputs that is dropped while training."""
    targets: str = option("all-linear", min_length=1, advanced=True)
    """LoRA: `all-linear`, or names of linear layers with commas (`q_proj,v_proj`)."""


class TrainSpec(Part):
    """The hyperparameters."""

    learning_rate: float = option(2e-4, gt=0.0, le=10.0)
    epochs: float = option(3.0, gt=0.0, le=10_000.0)
    """How many times the data is gone through."""
    max_steps: int | None = option(None, unit="steps", ge=1, le=10**9, advanced=True)
    """Ends after so many optimizer steps, whatever the epochs say."""
    micro_batch: int = option(2, unit="samples", ge=1, le=4096)
    """Samples that one GPU takes at a time."""
    accumulation: int = option(4, unit="passes", ge=1, le=65_536)
    """Passes before each optimizer step."""
    schedule: Schedule = option("cosine")
    warmup_ratio: float = option(0.03, ge=0.0, lt=1.0, advanced=True)
    """Share of the steps in which the learning rate rises to its full value."""
    warmup_steps: int | None = option(None, unit="steps", ge=1, le=10**9, advanced=True)
    """Steps in which the learning rate rises; empty: `warmup_ratio` says it."""
    weight_decay: float = option(0.0, ge=0.0, le=1.0, advanced=True)
    adam_beta1: float = option(0.9, ge=0.0, lt=1.0, advanced=True)
    """AdamW: how much of its average gradient is kept from step to step."""
    adam_beta2: float = option(0.999, ge=0.0, lt=1.0, advanced=True)
    """AdamW: how much of its average squared gradient is kept from step to step."""
    adam_epsilon: float = option(1e-8, gt=0.0, le=1.0, advanced=True)
    """AdamW: added to the divisor, so that it is never 0."""
    max_grad_norm: float = option(1.0, ge=0.0, le=1000.0, advanced=True)
    """Gradients are clipped to this norm; 0 is off."""
    precision: Precision = option("auto")
    activation_checkpointing: bool = option(False)
    """Keeps only each layer's input and computes the rest again: less memory, about a third slower."""
    save_every: int | None = option(None, unit="steps", ge=1, le=10**9)
    """Writes a checkpoint every so many steps; empty: only the result at the end."""
    keep_checkpoints: int = option(2, ge=1, le=1000, advanced=True)
    """How many checkpoints are kept; older ones are deleted."""
    evaluate_every: int | None = option(None, unit="steps", ge=1, le=10**9, advanced=True)
    """Measures the loss on the held-out rows every so many steps; empty: at the end of each epoch."""
    log_every: int = option(1, unit="steps", ge=1, le=10_000, advanced=True)
    workers: int = option(0, ge=0, le=64, advanced=True)
    """Processes of each rank that lay out its batches; 0: the rank does it itself."""
    seed: int = option(42, ge=0, le=2**32 - 1, advanced=True)


class ZeroSpec(Part):
    """What is sharded over the GPUs, and what is kept in the host's memory."""

    stage: Annotated[Stage, BeforeValidator(_as_word)] = option("none")
    offload: Offload = option("none")
    optimizer_device: Place = option("cpu", advanced=True)
    """Offload: where the optimizer's states go. NVMe needs stage 3."""
    param_device: Place = option("cpu", advanced=True)
    """Offload of all: where the parameters go between uses."""
    nvme_path: str = option("", max_length=1024, advanced=True)
    """Folder on a fast disk that states are swapped to; a folder of the run's own is made in it."""
    ratio: float = option(1.0, gt=0.0, le=1.0, advanced=True)
    """Stage 3: share of the optimizer's groups that is offloaded; the rest stays and is updated on the GPU."""
    pin_memory: Annotated[Switch, BeforeValidator(_as_switch)] = option("auto", advanced=True)
    """Whether offloaded memory is locked, for faster copies. auto: with a GPU."""
    optimizer_buffers: int = option(4, ge=4, le=64, advanced=True)
    """NVMe: buffers for the optimizer's states on their way; Adam needs four."""
    param_buffers: int = option(5, ge=1, le=64, advanced=True)
    """NVMe: buffers for parameters on their way."""
    param_buffer_size: int | None = option(None, unit="elements", ge=1, le=ELEMENTS, advanced=True)
    """NVMe: elements (not bytes) of each; must hold the largest tensor's part. Empty: chosen for the model."""
    param_in_cpu: int = option(0, unit="elements", ge=0, le=ELEMENTS, advanced=True)
    """NVMe: elements of parameters that stay in the host's memory instead of being swapped."""
    aio_block_size: int = option(1 << 20, unit="bytes", ge=4096, le=1 << 30, advanced=True)
    """NVMe: bytes that are read or written at a time."""
    aio_queue_depth: int = option(8, ge=1, le=1024, advanced=True)
    """NVMe: blocks that may be under way at a time."""
    aio_parallelism: int = option(1, ge=1, le=64, advanced=True)
    """NVMe: threads that a single tensor is read or written by."""
    aio_single_submit: bool = option(False, advanced=True)
    """NVMe: hands blocks over one by one instead of together."""
    aio_overlap_events: bool = option(True, advanced=True)
    """NVMe: hands over new blocks while others are waited for."""
    overlap_comm: bool = option(False, advanced=True)
    """Communicate while computing: faster on some networks, takes memory for buckets."""
    bucket_size: int | None = option(None, unit="elements", ge=1, le=ELEMENTS, advanced=True)
    """Elements (not bytes) that are reduced at a time; empty: chosen for the model."""
    allgather_bucket_size: int | None = option(None, unit="elements", ge=1, le=ELEMENTS, advanced=True)
    """Stages 1 and 2: elements (not bytes) that are gathered at a time; empty: as many as are reduced."""
    reduce_scatter: bool = option(True, advanced=True)
    """Each rank receives its own part of the summed gradients; off: all of them."""
    contiguous_gradients: bool = option(True, advanced=True)
    """Gradients are laid side by side as they are made."""
    round_robin_gradients: bool = option(False, advanced=True)
    """Stages 1 and 2 with offload: ranks take turns in copying gradients to the host."""
    prefetch_bucket_size: int | None = option(None, unit="elements", ge=0, le=ELEMENTS, advanced=True)
    """Stage 3: elements (not bytes) that are fetched ahead of their use; empty: chosen for the model."""
    max_live_parameters: int | None = option(None, unit="elements", ge=1, le=ELEMENTS, advanced=True)
    """Stage 3: elements that a rank may hold gathered at a time; empty: chosen for the model."""
    max_reuse_distance: int | None = option(None, unit="elements", ge=0, le=ELEMENTS, advanced=True)
    """Stage 3: what is needed again within so many elements is kept; empty: chosen for the model."""
    persistence_threshold: int | None = option(None, unit="elements", ge=0, le=ELEMENTS, advanced=True)
    """Stage 3: tensors of at most so many elements stay whole; empty: ten times the hidden size."""
    sub_group_size: int | None = option(None, unit="elements", ge=1, le=ELEMENTS, advanced=True)
    """Stage 3: elements that the optimizer updates at a time; empty: chosen for the model."""
    gather_on_save: bool = option(True, advanced=True)
    """Stage 3: gathers the 16-bit weights when the model is saved. Off, the result has to be consolidated."""
    loss_scale: float = option(0.0, ge=0.0, le=2.0**40, advanced=True)
    """fp16: what the loss is multiplied by; 0: it follows the training."""
    loss_scale_power: int = option(16, ge=0, le=40, advanced=True)
    """fp16: the first scale is 2 to this power."""
    loss_scale_window: int = option(1000, unit="steps", ge=1, le=10**9, advanced=True)
    """fp16: steps without an overflow after which the scale is doubled."""
    hysteresis: int = option(2, ge=1, le=1000, advanced=True)
    """fp16: overflows before the scale is halved."""
    min_loss_scale: int = option(1, ge=1, le=2**30, advanced=True)
    """fp16: the scale never falls below this."""
    optimizer: OptimizerMaker = option("trainer", advanced=True)
    """Who makes the AdamW: the Trainer (torch's), or DeepSpeed by a block in its file (its own, compiled)."""
    scheduler: SchedulerMaker = option("trainer", advanced=True)
    """Who makes the schedule: the Trainer, or DeepSpeed by a block in its file."""
    warmup_curve: WarmupCurve = option("log", advanced=True)
    """DeepSpeed's schedules: how the learning rate rises."""
    warmup_min_ratio: float = option(0.0, ge=0.0, le=1.0, advanced=True)
    """DeepSpeed's schedules: share of the learning rate at which it begins to rise."""
    cosine_min_ratio: float = option(0.0001, ge=0.0, le=1.0, advanced=True)
    """WarmupCosineLR: share of the learning rate at which it ends."""


class DeviceSpec(Part):
    """Where it runs."""

    count: int | None = option(None, ge=1, le=4096)
    """How many ranks on a machine; empty: every free GPU, or two processes on the CPU."""
    gpus: tuple[str, ...] = option((), advanced=True)
    """UUIDs of the GPUs to use; empty: the first `count`."""
    nodes: int = option(1, ge=1, le=1024, advanced=True)
    """How many machines of this kind train together, each with as many ranks."""
    rendezvous: str = option("", max_length=200, advanced=True)
    """Several machines: where they meet, `HOST:PORT` of one of them; empty: this one."""
    price_per_hour: float | None = option(None, ge=0.0, le=1e6, advanced=True)
    """What one GPU costs for an hour, in whatever currency; empty: no costs are told."""


class RunSpec(Part):
    """Everything that a user asks of a run."""

    name: str = option("", max_length=80)
    """A name for people; the id is made by ZeroBoard."""
    model: ModelSpec
    data: DataSpec
    method: MethodSpec = MethodSpec()
    train: TrainSpec = TrainSpec()
    zero: ZeroSpec = ZeroSpec()
    devices: DeviceSpec = DeviceSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldFacts:
    """One line of the table of fields."""

    key: str
    """Dotted: `zero.stage`."""
    kind: Literal["choice", "text", "integer", "number", "switch", "list", "mapping", "parts"]
    default: Any
    """`...` where the field is required."""
    optional: bool
    """May be empty (None)."""
    choices: tuple[str, ...]
    """Of a mapping: the keys that it may have."""
    ge: float | None
    gt: float | None
    le: float | None
    lt: float | None
    unit: str | None
    advanced: bool
    doc: str
    inner: tuple[FieldFacts, ...] = ()
    """Of parts: the fields of each, under keys of their own (`data.more.weight`)."""


_KINDS: dict[type, Literal["text", "integer", "number", "switch"]] = {
    bool: "switch",
    int: "integer",
    float: "number",
    str: "text",
}


def fields() -> tuple[FieldFacts, ...]:
    """The table of fields, in the order of the form."""
    return tuple(_walk(RunSpec, ""))


def _walk(model: type[Part], prefix: str) -> Iterator[FieldFacts]:
    for name, info in model.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, Part):
            yield from _walk(kind, f"{prefix}{name}.")
        else:
            yield _facts(f"{prefix}{name}", info)


def _facts(key: str, info: FieldInfo) -> FieldFacts:
    kind: Any = info.annotation
    arms = get_args(kind)
    optional = type(None) in arms
    if optional:
        kind = next(arm for arm in arms if arm is not type(None))
    named = get_origin(kind) is dict
    listed = arms[0] if named else kind
    inner = arms[0] if get_origin(kind) is tuple and isinstance(arms[0], type) and issubclass(arms[0], Part) else None
    choices = tuple(str(c) for c in get_args(listed)) if get_origin(listed) is Literal else ()
    bounds: dict[str, float] = {}
    for rule in info.metadata:
        for cls, name in ((Ge, "ge"), (Gt, "gt"), (Le, "le"), (Lt, "lt")):
            if isinstance(rule, cls):
                bounds[name] = getattr(rule, name)
    extra: Mapping[str, Any] = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    return FieldFacts(
        key=key,
        kind=_kind(kind, named=named, choices=choices, inner=inner),
        default=... if info.is_required() else info.get_default(),
        optional=optional,
        choices=choices,
        ge=bounds.get("ge"),
        gt=bounds.get("gt"),
        le=bounds.get("le"),
        lt=bounds.get("lt"),
        unit=extra.get("unit"),
        advanced=bool(extra.get("advanced")),
        doc=info.description or "",
        inner=tuple(_walk(inner, f"{key}.")) if inner is not None else (),
    )


def _kind(
    kind: Any, *, named: bool, choices: tuple[str, ...], inner: type[Part] | None
) -> Literal["choice", "text", "integer", "number", "switch", "list", "mapping", "parts"]:
    if named:
        return "mapping"
    if choices:
        return "choice"
    if get_origin(kind) is tuple:
        return "list" if inner is None else "parts"
    return _KINDS[kind]
