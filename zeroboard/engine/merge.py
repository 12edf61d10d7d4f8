"""The verb `merge`: an adapter goes into its base, tensor by tensor; the result is a model of its own.

The folder holds weights, config, generation settings with every end token, and the tokenizer and template that the
training used; nothing of peft. It appears whole or not at all.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from zeroboard.checkpoints.along import take_along
from zeroboard.checkpoints.consolidate import judge_room, no_room
from zeroboard.checkpoints.folder import Folder, list_folder
from zeroboard.checkpoints.inspect import CONFIG
from zeroboard.checkpoints.merging import MergePlan, plan_merge
from zeroboard.checkpoints.tokenizer import has_tokenizer
from zeroboard.checkpoints.whole import whole_folder
from zeroboard.checkpoints.writer import Entry, Shard, plan_shards, total_bytes, write_shards
from zeroboard.contract.reports import MergeReport
from zeroboard.contract.requests import MergeRequest
from zeroboard.engine.blocks import pieces
from zeroboard.engine.channel import Channel, leave_when_asked
from zeroboard.engine.percents import told_by_percents
from zeroboard.errors import Refused
from zeroboard.files import DISK_FULL, foreign_json, write_atomic
from zeroboard.modelfiles import TEMPLATE, TOKEN_FILES, TOKENIZER_CONFIG, default_template

OnProgress = Callable[[float], None]
"""Told the share of the bytes that are written, 0 to 1."""


def main(channel: Channel) -> int:
    """The verb: one `MergeRequest` in, progress, an `Answer` with a `MergeReport` (or the problems) out."""
    request = MergeRequest.model_validate_json(channel.receive() or "")
    leave_when_asked()
    channel.answer(lambda: merge(request, lambda done: channel.progress("merge", done, "merge.writing")))
    return 0


def merge(request: MergeRequest, on_progress: OnProgress = lambda done: None) -> MergeReport:
    """Merge into the folder `request.target`.

    Raises `Refused` (whatever stands in the way, all of it), `NotFound`, `BrokenFile` where a file changed meanwhile.
    """
    started = time.monotonic()
    base = Path(request.base) if request.base else None
    plan = plan_merge(Path(request.path), base, dtype=request.dtype)
    target = Path(request.target)
    shards = plan_shards((output.entry for output in plan.outputs.values()), shard_bytes=request.shard_bytes)
    size = total_bytes(shards)
    if problems := judge_room(target, size):
        raise Refused(problems)
    try:
        with whole_folder(target) as folder:
            _write_weights(folder, plan, shards, on_progress)
            write_atomic(folder / CONFIG, foreign_json(plan.config))
            copy_tokenizer(list_folder(plan.adapter), list_folder(plan.base), folder)
            # here: this takes seconds to import, and the weights do not need it
            from zeroboard.engine.endings import describe, write_generation

            spoken = describe(folder, trust_remote_code=request.trust_remote_code)
            write_generation(folder, [list_folder(plan.base)], spoken)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise Refused([no_room(target, size, shutil.disk_usage(target.parent).free)]) from error
    return MergeReport(
        path=str(target),
        base=str(plan.base),
        tensors=len(plan.outputs),
        changed=plan.changed,
        bytes=size,
        files=tuple(shard.file for shard in shards),
        seconds=round(time.monotonic() - started, 2),
        notes=plan.notes,
    )


def _write_weights(folder: Path, plan: MergePlan, shards: tuple[Shard, ...], on_progress: OnProgress) -> None:
    threads = torch.get_num_threads()
    advance = told_by_percents(total_bytes(shards), "merge.writing", lambda done, says, params: on_progress(done))

    def read(entry: Entry) -> Iterator[memoryview]:
        torch.set_num_threads(1)  # of the writer's thread: they work side by side, each on its own tensor
        return pieces(plan.outputs[entry.name])

    try:
        write_shards(folder, shards, read, workers=threads, on_bytes=advance)
    finally:
        torch.set_num_threads(threads)


def copy_tokenizer(adapter: Folder, base: Folder, target: Path) -> None:
    """The tokenizer of the training: that beside the adapter, else the base's; the template likewise.

    Modules of a model with code of its own are copied too, and not run. Raises `Refused` for a link that leads out.
    """
    home = adapter if has_tokenizer(adapter) else base
    for name in TOKEN_FILES:
        if name in home.files:
            take_along(home, name, target)
    if TEMPLATE in adapter.files:
        take_along(adapter, TEMPLATE, target)
    elif TEMPLATE in base.files and not default_template(
        (home.json(TOKENIZER_CONFIG).value or {}).get("chat_template")
    ):
        take_along(base, TEMPLATE, target)
    if (base.json(CONFIG).value or {}).get("auto_map"):
        for name in base.top():
            if name.endswith(".py"):
                take_along(base, name, target)
