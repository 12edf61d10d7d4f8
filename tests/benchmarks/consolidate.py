"""A model of 2.2 GB (float32) put together from two ranks' ZeRO states, against DeepSpeed's `zero_to_fp32` and `cp`.

    python -m tests.benchmarks.consolidate [FOLDER]      prints ratios; needs 14 GB of disk in FOLDER

The states are synthetic: random weights in DeepSpeed's layout, with Adam's two moments, so that the files are as
large as real ones; everything is deleted afterwards. Each side is a process of its own, timed from its start to its
end with the interpreter's imports (CPU: user and system time); ours syncs what it wrote to the disk within that time,
the others do not. Memory is the largest anonymous resident size (RssAnon of /proc/PID/status, read every 5 ms): what
the process itself holds, without the pages of mapped files, which the kernel may drop (ru_maxrss would count those).
The rate is that of the verb itself, from the first look at the files to the folder's name, fsync included, against
`cp` of the file that was written, which does not wait for the disk. All take turns, and the fastest of each counts.
Both results are compared bit by bit.
"""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from tests.benchmarks.merge import CONFIG, FASTER, LEAST_RATE, MOST_MEMORY, in_a_folder, measure
from zeroboard.checkpoints.architecture import expected_tensors
from zeroboard.contract.reports import Consolidation
from zeroboard.contract.requests import VERB_LINE, Answer, ConsolidateRequest

LAYERS = 7
RANKS = 2
TIMES = 3


def write_states(folder: Path, stage: int) -> Path:
    """A checkpoint in DeepSpeed's layout."""
    shapes = {n: torch.Size(s) for n, s in expected_tensors(CONFIG | {"num_hidden_layers": LAYERS}).shapes.items()}
    states = folder / "global_step1"
    states.mkdir(parents=True)
    (folder / "latest").write_text(states.name)
    (folder / "zero_to_fp32.py").write_text("")
    model: dict[str, Any] = {
        "module": {}
        if stage == 3
        else {name: torch.zeros(shape, dtype=torch.bfloat16) for name, shape in shapes.items()},
        "buffer_names": [],
        "param_shapes": [shapes],
        "frozen_param_shapes": {},
        "frozen_param_fragments": {},
        "shared_params": {},
        "dp_world_size": RANKS,
        "global_steps": 1,
        "ds_version": "0.19.8",
    }
    for name in [f"zero_pp_rank_{r}_mp_rank_00" for r in range(RANKS)] if stage == 3 else ["mp_rank_00"]:
        torch.save(model, states / f"{name}_model_states.pt")
    del model
    parts = [-(-math.prod(s) // RANKS) for s in shapes.values()]
    size = sum(parts) if stage == 3 else -(-sum(map(math.prod, shapes.values())) // RANKS)
    for rank in range(RANKS):
        torch.manual_seed(rank)
        master = torch.empty(size).normal_(0, 0.02)
        moments = {"step": torch.tensor(1.0), "exp_avg": torch.zeros(size), "exp_avg_sq": torch.zeros(size)}
        inner = {"zero_stage": stage, "partition_count": RANKS, "optimizer_state_dict": {"state": {0: moments}}}
        inner["fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"] = [master]
        state = {"optimizer_state_dict": inner, "ds_version": "0.19.8"}
        torch.save(state, states / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    return folder


def compare(stage: int, home: Path) -> bool:
    """Prints five lines; whether all that was promised was kept."""
    source = write_states(home / f"z{stage}", stage)
    request = ConsolidateRequest(
        path=str(source), target=str(home / "ours"), dtype="fp32", trust_pickles=True, shard_bytes=5_000_000_000
    )
    peer = [
        sys.executable,
        "-m",
        "deepspeed.utils.zero_to_fp32",
        str(source),
        str(home / "theirs"),
        "--safe_serialization",
    ]
    ours, verb, theirs, copied = [], [], [], []
    for turn in range(TIMES):
        theirs.append(measure(peer))
        ours.append(
            measure([sys.executable, "-m", "zeroboard.engine", "consolidate"], request.model_dump_json() + "\n")
        )
        verb.append(report(ours[-1].said).seconds)
        file = home / "ours" / "model.safetensors"
        size = file.stat().st_size / 1e6
        copied.append(measure(["cp", str(file), str(home / "copy")]).seconds)
        if turn == 0:
            same(file, home / "theirs" / "model.safetensors")
        (home / "copy").unlink()
        shutil.rmtree(home / "ours")
        shutil.rmtree(home / "theirs")
    shutil.rmtree(source)
    print(f"ZeRO-{stage}, {RANKS} ranks, {size:,.0f} MB written")
    mine, other = min(m.seconds for m in ours), min(m.seconds for m in theirs)
    print(f"  time    {mine:7.1f} s     zero_to_fp32 {other:7.1f} s     {other / mine:5.2f} x as fast")
    kept = other >= FASTER * mine
    mine, other = min(m.cpu for m in ours), min(m.cpu for m in theirs)
    print(f"  CPU     {mine:7.1f} s     zero_to_fp32 {other:7.1f} s     {other / mine:5.2f} x as little")
    peak, limit = max(m.peak for m in ours) / 1e6, min(m.peak for m in theirs) / 1e6
    print(f"  memory  {peak:7.0f} MB    zero_to_fp32 {limit:7.0f} MB    {peak / limit:5.2f} of its peak")
    rate, cp = size / min(verb), size / min(copied)
    print(f"  rate    {rate:7.0f} MB/s  cp           {cp:7.0f} MB/s  {rate / cp:5.2f} of cp's", flush=True)
    return kept and peak <= MOST_MEMORY * limit and rate >= LEAST_RATE * cp


def same(one: Path, other: Path) -> None:
    """Both files hold the same tensors."""
    with safe_open(one, "pt") as mine, safe_open(other, "pt") as theirs:
        names = set(mine.keys())
        if names != set(theirs.keys()) or not all(torch.equal(mine.get_tensor(n), theirs.get_tensor(n)) for n in names):
            raise SystemExit(f"{one} and {other} differ")


def report(said: str) -> Consolidation:
    answer = VERB_LINE.validate_json(next(line for line in said.splitlines() if line.startswith('{"kind":"answer"')))
    assert isinstance(answer, Answer)
    return Consolidation.model_validate(answer.value)


def main(arguments: list[str]) -> int:
    """1 where a promise was broken."""
    return in_a_folder("consolidate", arguments, lambda home: compare(2, home) & compare(3, home))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
