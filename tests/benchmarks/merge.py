"""Merging a rank-16 adapter on all linear layers into a base of 2.2 GB, against peft and against `cp`.

    python -m tests.benchmarks.merge [FOLDER]      prints ratios; needs 10 GB of disk in FOLDER and 8 GB of memory

Each side is a process of its own, timed from its start to its end with the interpreter's imports (CPU: user and system
time of the process). Memory is the largest anonymous resident size (RssAnon of /proc/PID/status, read every 5 ms): what
the process itself holds, without the pages of the files that it reads, which the kernel may drop. The rate against `cp`
is that of the merge itself, from the plan to the folder's name, fsync included, without the start of the interpreter;
`cp` copies the merged file and does not wait for the disk. All three take turns, and the fastest of each counts.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zeroboard.checkpoints.architecture import expected_tensors
from zeroboard.checkpoints.writer import Entry, plan_shards, write_shards
from zeroboard.contract.reports import MergeReport
from zeroboard.contract.requests import VERB_LINE, Answer, MergeRequest

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
}
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
RANK = 16
TIMES = 3

FASTER = 2.0
MOST_MEMORY = 1 / 3
LEAST_RATE = 0.5
"""Promised, against the peer of the same run: time, memory, and the rate of `cp`."""

PEFT = """
import sys, torch
from peft import PeftModel
from transformers import AutoModelForCausalLM
base, adapter, target = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
PeftModel.from_pretrained(model, adapter).merge_and_unload().save_pretrained(target)
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """A process."""

    seconds: float
    cpu: float
    """Seconds, user and system."""
    peak: int
    """Bytes."""
    said: str


def write_base(folder: Path) -> Path:
    """Random weights of a size that products of 2048 numbers stay small."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    entries = [Entry(name=n, dtype="BF16", shape=s) for n, s in expected_tensors(CONFIG).shapes.items()]
    random = np.random.default_rng(0)

    def read(entry: Entry) -> list[bytes]:
        values = random.standard_normal(entry.bytes // 2, np.float32) * np.float32(0.02)
        return [(values.view(np.uint32) >> 16).astype(np.uint16).tobytes()]

    write_shards(folder, plan_shards(entries), read, workers=1)
    return folder


def write_adapter(folder: Path, base: Path) -> Path:
    folder.mkdir(parents=True)
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": 32, "bias": "none"}
    config |= {"target_modules": list(TARGETS), "base_model_name_or_path": str(base)}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    entries = []
    for name, shape in expected_tensors(CONFIG).shapes.items():
        module = name.removesuffix(".weight")
        if module.endswith(TARGETS):
            sizes = {"lora_A": (RANK, shape[1]), "lora_B": (shape[0], RANK)}
            entries += [
                Entry(name=f"base_model.model.{module}.{k}.weight", dtype="F32", shape=s) for k, s in sizes.items()
            ]
    random = np.random.default_rng(1)

    def read(entry: Entry) -> list[bytes]:
        return [(random.standard_normal(entry.shape, np.float32) * np.float32(0.02)).tobytes()]

    write_shards(folder, plan_shards(entries, stem="adapter_model", split=False), read, workers=1)
    return folder


def measure(argv: list[str], stdin: str = "") -> Measured:
    """Run it to its end; it must succeed."""
    os.sync()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=said, stderr=said, text=True)
        peak = [0]
        watching = threading.Thread(target=_watch, args=(process, peak))
        watching.start()
        process.communicate(stdin)
        seconds = time.monotonic() - started
        watching.join()
        said.seek(0)
        text = said.read()
        if process.returncode != 0:
            raise SystemExit(text)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Measured(seconds, cpu, peak[0], text)


def _watch(process: subprocess.Popen[str], peak: list[int]) -> None:
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        try:
            text = status.read_text()
        except (FileNotFoundError, ProcessLookupError):
            return
        kilobytes = [int(line.split()[1]) for line in text.splitlines() if line.startswith("RssAnon:")]
        peak[0] = max(peak[0], 1024 * sum(kilobytes))
        time.sleep(0.005)


def compare(home: Path) -> bool:
    """Prints three lines; whether all that was promised was kept."""
    base = write_base(home / "base")
    adapter = write_adapter(home / "adapter", base)
    request = MergeRequest(path=str(adapter), base=str(base), target=str(home / "ours"))
    for file in base.iterdir():
        file.read_bytes()  # both find the base in the page cache
    ours, merging, theirs, copied = [], [], [], []
    for _ in range(TIMES):
        ours.append(measure([sys.executable, "-m", "zeroboard.engine", "merge"], request.model_dump_json() + "\n"))
        merging.append(_report(ours[-1].said).seconds)
        file = home / "ours" / "model.safetensors"
        size = file.stat().st_size / 1e6
        copied.append(measure(["cp", str(file), str(home / "copy")]).seconds)
        (home / "copy").unlink()
        shutil.rmtree(home / "ours")
        theirs.append(measure([sys.executable, "-c", PEFT, str(base), str(adapter), str(home / "theirs")]))
        shutil.rmtree(home / "theirs")
    for name, value in (("CPU", lambda m: m.cpu), ("time", lambda m: m.seconds)):
        mine, other = min(map(value, ours)), min(map(value, theirs))
        print(f"{name:8} {mine:7.1f} s   peft {other:7.1f} s   {other / mine:5.2f} x as fast")
    kept = other >= FASTER * mine
    mine, other = max(m.peak for m in ours) / 1e6, min(m.peak for m in theirs) / 1e6
    kept &= mine <= MOST_MEMORY * other
    print(f"memory   {mine:7.0f} MB  peft {other:7.0f} MB  {mine / other:5.2f} of peft's")
    rate, limit = size / min(merging), size / min(copied)
    print(f"rate     {rate:7.0f} MB/s cp {limit:7.0f} MB/s  {rate / limit:5.2f} of cp's")
    return kept and rate >= LEAST_RATE * limit


def _report(said: str) -> MergeReport:
    answer = VERB_LINE.validate_json(next(line for line in said.splitlines() if line.startswith('{"kind":"answer"')))
    assert isinstance(answer, Answer)
    return MergeReport.model_validate(answer.value)


def in_a_folder(name: str, arguments: list[str], measured: Callable[[Path], bool]) -> int:
    """Measure in a folder of its own inside the one that was named, and remove it; 1 where a promise was broken."""
    work = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=arguments[0] if arguments else None))
    try:
        kept = measured(work)
    finally:
        shutil.rmtree(work)
    print("kept what was promised" if kept else "BROKEN: less than was promised")
    return int(not kept)


def main(arguments: list[str]) -> int:
    """1 where a promise was broken."""
    return in_a_folder("merge", arguments, compare)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
