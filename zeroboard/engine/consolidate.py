"""The verb `consolidate`: the states of a ZeRO checkpoint of any number of ranks become a model or an adapter.

Streamed: the states are mapped, each tensor is put together and converted a few megabytes at a time, and written where
the header says. Memory holds those megabytes; the mapped pages belong to the files and can be dropped at any time. The
folder appears whole or not at all. Source of the layout: see `zeroboard.checkpoints.consolidate_layout`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from zeroboard.checkpoints.along import take_along
from zeroboard.checkpoints.consolidate import find_sources, judge_room, no_room
from zeroboard.checkpoints.consolidate_layout import Parameter, make_plan
from zeroboard.checkpoints.consolidate_names import Named, name_tensors
from zeroboard.checkpoints.folder import Folder, list_folder
from zeroboard.checkpoints.inspect import ADAPTER_CONFIG, CONFIG
from zeroboard.checkpoints.whole import whole_folder
from zeroboard.checkpoints.writer import Entry, Piece, Shard, plan_shards, total_bytes, write_shards
from zeroboard.contract.plan import Dtype
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.contract.reports import Consolidation
from zeroboard.contract.requests import Answer, ConsolidateRequest
from zeroboard.engine.channel import Channel, leave_when_asked
from zeroboard.engine.consolidate_states import Tensors, read_states
from zeroboard.engine.percents import Tell, told_by_percents
from zeroboard.errors import NotFound, Refused
from zeroboard.files import DISK_FULL, foreign_json, write_atomic
from zeroboard.modelfiles import TOKEN_FILES

CHUNK = 1 << 18
"""Elements that are converted and written at a time, for each thread of the writer: they stay in the cache."""

COMPANIONS = (CONFIG, ADAPTER_CONFIG, "generation_config.json", *TOKEN_FILES)
"""Files that make weights a model; copied where they are there."""

TYPES: dict[Dtype, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.bool: "BOOL",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
}  # fmt: skip
"""As safetensors names them."""


def main(channel: Channel) -> int:
    """One request, progress, one `Answer`: its value is a `Consolidation`, or its problems say why there is none."""
    request = ConsolidateRequest.model_validate_json(channel.receive() or "")
    leave_when_asked()
    torch.set_num_threads(1)  # the writer has threads of its own

    def tell(done: float, says: str, params: dict[str, Scalar]) -> None:
        channel.progress("consolidate", done, says, **params)

    try:
        written, warnings = consolidate(request, tell)
    except Refused as refused:
        channel.send(Answer(problems=refused.problems))
    else:
        channel.send(Answer(value=written.model_dump(mode="json"), problems=warnings))
    return 0


def consolidate(
    request: ConsolidateRequest, tell: Tell, *, adapter: bool = False
) -> tuple[Consolidation, tuple[Problem, ...]]:
    """Write `request.target`; returns what was written, and warnings.

    `adapter`: nothing else is of use. Raises `Refused` with all that is in the way.
    """
    started = time.monotonic()
    target = Path(request.target)
    try:
        sources = find_sources(
            Path(request.path), runs=Path(request.runs) if request.runs else None, trusted=request.trust_pickles
        )
    except NotFound as error:
        raise Refused([Problem(code="model-missing", says="load.missing", params={"path": request.path})]) from error
    models, optim, tensors = read_states(
        sources.models,
        sources.optim,
        lambda number, total: tell(0.0, "progress.consolidate.read", {"number": number + 1, "total": total}),
    )
    plan = make_plan(models, optim, sharded=sources.layout.sharded)
    homes = [sources.folder, *_home(request)]
    named = name_tensors(plan, tied=_tied(homes))
    if adapter and not named.adapter:
        raise Refused([Problem(code="model-unsupported", says="export.nothing-to-merge")])
    shards = _shards(named, tensors, request)
    size = total_bytes(shards)
    if problems := judge_room(target, size):
        raise Refused(problems)
    try:
        with whole_folder(target) as folder:
            _write(folder, shards, named, tensors, told_by_percents(size, "progress.consolidate.write", tell))
            warnings = _copy_companions(folder, homes, request.dtype, named)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise Refused([no_room(target, size, shutil.disk_usage(target.parent).free)]) from error
    written = Consolidation(
        path=str(target),
        kind="lora-adapter" if named.adapter else "full-model",
        files=tuple(shard.file for shard in shards),
        tensors=len(named.tensors),
        parameters=sum(_elements(entry.shape) for shard in shards for entry in shard.entries),
        bytes=size,
        dtype=request.dtype,
        stage=plan.stage,
        world_size=plan.world,
        step=plan.step,
        deepspeed=plan.version,
        seconds=round(time.monotonic() - started, 2),
    )
    return written, warnings


def _shards(named: Named, tensors: Tensors, request: ConsolidateRequest) -> tuple[Shard, ...]:
    entries = []
    for name, parameter in named.tensors.items():
        stored = _stored(parameter, tensors)
        written = TYPES[request.dtype] if stored.is_floating_point else stored
        if written not in NAMES:
            params: dict[str, Scalar] = {"name": name, "dtype": str(written)}
            raise Refused([Problem(code="checkpoint-damaged", says="problem.checkpoint-damaged.dtype", params=params)])
        entries.append(Entry(name=name, dtype=NAMES[written], shape=parameter.shape))
    stem = "adapter_model" if named.adapter else "model"
    return plan_shards(entries, shard_bytes=request.shard_bytes, stem=stem, split=not named.adapter)


def _stored(parameter: Parameter, tensors: Tensors) -> torch.dtype:
    return tensors.flat(parameter.parts[0]).dtype if parameter.parts else torch.float32


def _write(
    folder: Path, shards: tuple[Shard, ...], named: Named, tensors: Tensors, on_bytes: Callable[[int], None]
) -> None:
    types = {text: dtype for dtype, text in NAMES.items()}

    def read(entry: Entry) -> Iterator[Piece]:
        return _pieces(named.tensors[entry.name], tensors, types[entry.dtype])

    write_shards(folder, shards, read, on_bytes=on_bytes)


def _pieces(parameter: Parameter, tensors: Tensors, dtype: torch.dtype) -> Iterator[Piece]:
    """The bytes of a tensor: as they are mapped where the type is the same, else through one small buffer."""
    buffer: torch.Tensor | None = None
    for part in parameter.parts:
        for chunk in tensors.flat(part).split(CHUNK):  # type: ignore[no-untyped-call]
            if chunk.dtype == dtype:
                yield _bytes(chunk)
                continue
            if buffer is None:
                buffer = torch.empty(min(CHUNK, _elements(parameter.shape)), dtype=dtype)
            yield _bytes(buffer[: chunk.numel()].copy_(chunk))


def _bytes(tensor: torch.Tensor) -> memoryview:
    return tensor.view(torch.uint8).numpy().data


def _elements(shape: tuple[int, ...]) -> int:
    return torch.Size(shape).numel()


def _home(request: ConsolidateRequest) -> list[Folder]:
    return [list_folder(Path(request.home))] if request.home and Path(request.home).is_dir() else []


def _tied(homes: list[Folder]) -> bool | None:
    """What the first config that is there says of shared embeddings."""
    for home in homes:
        config = home.json(CONFIG).value
        if config is not None:
            inner = config.get("text_config")
            tied = config.get(
                "tie_word_embeddings", (inner if isinstance(inner, dict) else {}).get("tie_word_embeddings")
            )
            return tied if isinstance(tied, bool) else None
    return None


def _copy_companions(folder: Path, homes: list[Folder], dtype: Dtype, named: Named) -> tuple[Problem, ...]:
    """Config and tokenizer, each file from the first folder that has it; warnings where a config is nowhere."""
    wanted = ADAPTER_CONFIG if named.adapter else CONFIG
    for name in COMPANIONS:
        home = next((h for h in homes if name in h.files), None)
        if home is None or (name in (CONFIG, ADAPTER_CONFIG) and name != wanted):
            continue
        config = home.json(name).value if name == CONFIG else None
        if config is not None:
            write_atomic(folder / name, foreign_json(_with_dtype(config, dtype)))
        else:
            take_along(home, name, folder)
    if any(wanted in home.files for home in homes):
        return ()
    return (Problem(code="config-missing", severity="warning", params={"file": wanted}),)


def _with_dtype(config: dict[str, Any], dtype: Dtype) -> dict[str, Any]:
    """The config with the type that the weights have now: transformers loads them in the type that it names."""
    old = "torch_dtype" if "torch_dtype" in config and "dtype" not in config else "dtype"
    return config | {old: str(TYPES[dtype]).removeprefix("torch.")}
