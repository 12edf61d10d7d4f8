"""The verb `export`: weights and all that makes them a model, into one folder that plain `transformers` loads.

A ZeRO checkpoint is consolidated, an adapter stays one or is merged, a full model is written anew in the type and shard
size that were asked for. Beside the weights: config, generation settings with every end token, tokenizer, the template
of the training (written out where the model had none), licence files. Streamed, and whole or not at all.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

from zeroboard.checkpoints.along import judge_links, leads_out, take_along
from zeroboard.checkpoints.consolidate import judge_room, no_room
from zeroboard.checkpoints.findings import Findings
from zeroboard.checkpoints.folder import Folder, list_folder
from zeroboard.checkpoints.inspect import ADAPTER_CONFIG, CONFIG, kind_of, source_kind
from zeroboard.checkpoints.mergeable import failed
from zeroboard.checkpoints.merging import DTYPES, FLOATS, NAMES, Output, Place
from zeroboard.checkpoints.tokenizer import has_tokenizer
from zeroboard.checkpoints.weights import ADAPTER, Weights, read_files, read_model
from zeroboard.checkpoints.whole import whole_folder
from zeroboard.checkpoints.writer import Entry, plan_shards, total_bytes, write_shards
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.contract.requests import ConsolidateRequest, Exported, ExportRequest, MergeRequest
from zeroboard.engine.blocks import pieces
from zeroboard.engine.channel import Channel, leave_when_asked
from zeroboard.engine.consolidate import consolidate
from zeroboard.engine.endings import Spoken, describe, write_generation
from zeroboard.engine.merge import copy_tokenizer, merge
from zeroboard.engine.percents import Tell, told_by_percents
from zeroboard.errors import Refused
from zeroboard.files import DISK_FULL, foreign_json, write_atomic
from zeroboard.modelfiles import GENERATION

LEGAL = ("LICENSE", "LICENCE", "NOTICE", "COPYING", "USE_POLICY")
"""Beginnings of the names of files that travel with the weights: most licences ask for that."""

LEGAL_BYTES = 1 << 20


def main(channel: Channel) -> int:
    """One `ExportRequest` in, progress, one `Answer`: an `Exported`, or the problems that stood in the way."""
    request = ExportRequest.model_validate_json(channel.receive() or "")
    leave_when_asked()

    def tell(done: float, says: str, params: dict[str, Scalar]) -> None:
        channel.progress("weights", done, says, **params)

    channel.answer(lambda: export(request, tell))
    return 0


def export(request: ExportRequest, tell: Tell = lambda done, says, params: None) -> Exported:
    """Write the folder `request.target`. Raises `Refused` with all that is in the way, `NotFound`, `BrokenFile`."""
    path, target = Path(request.path), Path(request.target)
    kind = source_kind(list_folder(path))
    homes = _homes(request, path)
    if problems := [problem for home in homes for problem in judge_links(home, published=request.published)]:
        raise Refused(problems)
    if kind == "zero-checkpoint":
        notes = _from_states(request, target, tell)
    elif kind == "lora-adapter" and request.merge:
        notes = _merged(request, path, target, tell)
    elif kind in ("lora-adapter", "full-model"):
        notes = _rewritten(request, path, target, tell)
    else:
        raise Refused([Problem(code="model-unsupported", says="export.not-a-model", params={"path": request.path})])
    try:
        spoken = _complete(request, target)
    except BaseException as error:  # it has its name already, and is not whole
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            raise Refused([no_room(target, 0, shutil.disk_usage(target.parent).free)]) from error
        raise
    return Exported(
        kind=kind_of(list_folder(target)),
        stops=spoken.stops,
        template=spoken.template,
        system=spoken.system,
        notes=notes,
    )


def _from_states(request: ExportRequest, target: Path, tell: Tell) -> tuple[Problem, ...]:
    """Consolidated; what becomes an adapter and shall be merged passes through a folder of its own."""
    with tempfile.TemporaryDirectory(prefix=".zeroboard-", dir=target.parent) as room:
        place = Path(request.adapter or f"{room}/adapter") if request.merge else target
        _, notes = consolidate(
            ConsolidateRequest(
                path=request.path,
                target=str(place),
                dtype="fp32" if request.merge else request.dtype or "bf16",
                shard_bytes=request.shard_bytes,
                runs=request.runs,
                trust_pickles=request.trust_pickles,
                home=request.base,
            ),
            tell,
            adapter=request.merge,
        )
        if not request.merge:
            return notes
        return (*notes, *_merged(request, place, target, tell))


def _merged(request: ExportRequest, adapter: Path, target: Path, tell: Tell) -> tuple[Problem, ...]:
    report = merge(
        MergeRequest(
            path=str(adapter),
            base=request.base,
            target=str(target),
            dtype=request.dtype,
            shard_bytes=request.shard_bytes,
            trust_remote_code=request.trust_remote_code,
        ),
        lambda done: tell(done, "merge.writing", {}),
    )
    return report.notes


def _rewritten(request: ExportRequest, path: Path, target: Path, tell: Tell) -> tuple[Problem, ...]:
    """The same tensors in files of the type and size that were asked for."""
    folder = list_folder(path)
    adapter = kind_of(folder) == "lora-adapter"
    found = _sound_weights(folder, adapter)
    config = dict(folder.json(CONFIG).value or {})
    if request.dtype and config.get("quantization_config"):
        raise Refused([Problem(code="model-unsupported", says="export.quantised", params={"path": str(path)})])
    wanted = DTYPES[request.dtype] if request.dtype else None
    outputs = {name: _output(name, Place(header.path, tensor), wanted) for name, (header, tensor) in _ordered(found)}
    shards = plan_shards(
        (output.entry for output in outputs.values()),
        shard_bytes=request.shard_bytes,
        stem="adapter_model" if adapter else "model",
        split=not adapter,
    )
    size = total_bytes(shards)
    if problems := judge_room(target, size):
        raise Refused(problems)
    try:
        with whole_folder(target) as room:
            threads = torch.get_num_threads()
            torch.set_num_threads(1)  # the writer has threads of its own
            write_shards(
                room,
                shards,
                lambda entry: pieces(outputs[entry.name]),
                workers=threads,
                on_bytes=told_by_percents(size, "progress.export.write", tell),
            )
            if not adapter:
                _write_config(room, config, request)
            for name in (ADAPTER_CONFIG, GENERATION):
                if name in folder.files:
                    take_along(folder, name, room)
            copy_tokenizer(folder, folder, room)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise Refused([no_room(target, size, shutil.disk_usage(target.parent).free)]) from error
    return ()


def _sound_weights(folder: Folder, adapter: bool) -> Weights:
    """Raises `Refused` with what is wrong with the files."""
    findings = Findings()
    if adapter:
        found = read_files(folder, [ADAPTER] if ADAPTER in folder.files else [], findings)
    else:
        found = read_model(folder, findings)
    problems = failed(findings)
    if not problems and not found.where:
        problems.append(
            Problem(code="model-unsupported", says="load.no-safetensors", params={"path": str(folder.path)})
        )
    if problems:
        raise Refused(problems)
    return found


def _ordered(found: Weights) -> list[tuple[str, Any]]:
    """In the order in which they lie, so that each file is read from its start to its end."""
    return sorted(found.where.items(), key=lambda item: (item[1][0].path.name, item[1][1].start))


def _output(name: str, start: Place, wanted: str | None) -> Output:
    kept = start.tensor.dtype
    entry = Entry(name=name, dtype=wanted if wanted and kept in FLOATS else kept, shape=start.tensor.shape)
    return Output(entry=entry, start=start)


def _write_config(room: Path, config: dict[str, Any], request: ExportRequest) -> None:
    """The model's, with the type as it is now; no path of this machine."""
    config.pop("_name_or_path", None)
    if request.dtype:
        name = NAMES[DTYPES[request.dtype]]
        config |= {key: name for key in ("dtype", "torch_dtype") if key in config} or {"dtype": name}
        inner = config.get("text_config")
        if isinstance(inner, dict):
            config["text_config"] = inner | {key: name for key in ("dtype", "torch_dtype") if key in inner}
    write_atomic(room / CONFIG, foreign_json(config))


def _complete(request: ExportRequest, target: Path) -> Spoken:
    """Tokenizer and template where the weights came without, generation settings with every end token, licences."""
    homes = _homes(request, target)
    if not has_tokenizer(list_folder(target)):
        home = next((home for home in homes if has_tokenizer(home)), None)
        if home is not None:
            copy_tokenizer(home, home, target)
    for home in homes:
        for name, size in home.top().items():
            wanted = name.upper().startswith(LEGAL) and size <= LEGAL_BYTES and not (target / name).exists()
            if wanted and not leads_out(home, name):
                take_along(home, name, target)
    spoken = describe(target, trust_remote_code=request.trust_remote_code)
    write_generation(target, homes, spoken)
    return spoken


def _homes(request: ExportRequest, adapter: Path) -> list[Folder]:
    """Where the files beside the weights may come from: the source, its base, and the one that the adapter names."""
    return [list_folder(Path(place)) for place in (request.path, request.base, *_named_base(adapter)) if place]


def _named_base(target: Path) -> tuple[str, ...]:
    """The base that a delivered adapter names, if it is a folder here."""
    named = (list_folder(target).json(ADAPTER_CONFIG).value or {}).get("base_model_name_or_path")
    try:
        return (named,) if isinstance(named, str) and Path(named).is_dir() else ()
    except (OSError, ValueError):  # a name that cannot be a path
        return ()
