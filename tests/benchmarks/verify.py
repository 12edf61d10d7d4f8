"""Verifying the files of a model: headers of 140 GB in 100 shards, and every value of 2.2 GB against `cat`.

    python -m tests.benchmarks.verify [FOLDER]      prints seconds and ratios; needs 3 GB of disk in FOLDER

The large model is made of sparse files: headers as they would be, and no blocks behind them. `cat` reads the same file
to /dev/null; both find it in the page cache. Each is done three times in turn, and the fastest of each counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from tests.benchmarks.merge import CONFIG, in_a_folder, write_base
from zeroboard.checkpoints.architecture import expected_tensors
from zeroboard.checkpoints.verify import verify_files
from zeroboard.checkpoints.weights import INDEX
from zeroboard.checkpoints.writer import Entry, plan_shards

LARGE = CONFIG | {
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "vocab_size": 128256,
}
"""As Llama 3 70B: 141 GB in bf16."""

TIMES = 3

MOST_SECONDS = 2.0
"""For the headers of the large model."""
LEAST_RATE = 0.5
"""Of what `cat` reads, for the values of the other."""


def write_sparse(folder: Path) -> int:
    """The large model with its index; returns its size in bytes."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LARGE))
    entries = [Entry(name=n, dtype="BF16", shape=s) for n, s in expected_tensors(LARGE).shapes.items()]
    shards = plan_shards(entries, shard_bytes=1_880_000_000)
    where = {entry.name: shard.file for shard in shards for entry in shard.entries}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": where}))
    for shard in shards:
        header, at = {}, 0
        for entry in shard.entries:
            header[entry.name] = {"dtype": "BF16", "shape": entry.shape, "data_offsets": [at, at + entry.bytes]}
            at += entry.bytes
        text = json.dumps(header).encode()
        with (folder / shard.file).open("wb") as stream:
            stream.write(len(text).to_bytes(8, "little") + text)
            stream.truncate(8 + len(text) + at)
    print(f"large    {len(shards)} shards, {len(entries)} tensors")
    return sum((folder / shard.file).stat().st_size for shard in shards)


def headers(home: Path) -> bool:
    """Prints what it took; whether that is little enough."""
    size = write_sparse(home / "large")
    best = min(_timed(lambda: _sound(home / "large", values=False)) for _ in range(TIMES))
    print(f"headers  {best:6.2f} s for {size / 1e9:.0f} GB   {best / MOST_SECONDS:.2f} of the limit")
    return best <= MOST_SECONDS


def values(home: Path) -> bool:
    """Prints the rates; whether ours is high enough."""
    folder = write_base(home / "base")
    file = folder / "model.safetensors"
    command = ["sh", "-c", f"cat '{file}' > /dev/null"]
    ours, theirs = [], []
    for _ in range(TIMES):
        theirs.append(_timed(lambda: subprocess.run(command, check=True)))
        ours.append(_timed(lambda: _sound(folder, values=True)))
    size = file.stat().st_size / 1e9
    rates = f"{size / min(ours):6.2f} GB/s   cat {size / min(theirs):6.2f} GB/s"
    print(f"values   {rates}   {min(theirs) / min(ours):.2f} of cat's")
    return min(theirs) >= LEAST_RATE * min(ours)


def _timed(work: object) -> float:
    started = time.monotonic()
    work()  # type: ignore[operator]
    return time.monotonic() - started


def _sound(folder: Path, *, values: bool) -> None:
    """There is no tokenizer; nothing else may be at fault."""
    bad = {check.name for check in verify_files(folder, values=values).checks if check.verdict == "fail"}
    if bad - {"tokenizer"}:
        raise SystemExit(f"the model that was written does not verify: {bad}")


def main(arguments: list[str]) -> int:
    """1 where a promise was broken."""
    return in_a_folder("verify", arguments, lambda home: all([headers(home), values(home)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
