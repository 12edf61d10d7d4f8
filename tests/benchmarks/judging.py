"""Judging a JSONL file of 300,000 rows, against `datasets.load_dataset("json")` on the same file; and its memory.

    python -m tests.benchmarks.judging [FOLDER]      prints ratios; needs 5 GB of disk in FOLDER

Both sides run in turns, each in a process of its own with its imports done before the clock starts; the best of the
rounds counts, by the clock and by the processor's seconds. `datasets` writes its Arrow file into an empty cache each
time; ours judges every row, makes it a conversation and looks for copies. Memory is the largest resident size of a
process that judges 2 GB of JSONL, imports included; the limit is 300 MB.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROWS = 300_000
LARGE = 2_000_000_000
"""Bytes."""
ROUNDS = 3
MOST_TIME = 3.0
MOST_MEMORY = 300e6

OURS = """
import json, resource, sys, time
from pathlib import Path
from zeroboard.data.judge import judge
clock, used = time.monotonic(), time.process_time()
report = judge(Path(sys.argv[1]), on_progress=lambda share: None)
times = time.monotonic() - clock, time.process_time() - used
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"rows": report.usable, "seconds": times[0], "cpu": times[1], "peak": peak}))
"""
THEIRS = """
import json, resource, sys, tempfile, time
import datasets
datasets.disable_progress_bars()
with tempfile.TemporaryDirectory(dir=sys.argv[2]) as cache:
    clock, used = time.monotonic(), time.process_time()
    rows = len(datasets.load_dataset("json", data_files=sys.argv[1], cache_dir=cache, split="train"))
    times = time.monotonic() - clock, time.process_time() - used
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"rows": rows, "seconds": times[0], "cpu": times[1], "peak": peak}))
"""


def write_rows(path: Path, *, rows: int = sys.maxsize, size: int = sys.maxsize) -> Path:
    """Rows of instruction, input and output with a few hundred to a thousand letters, all different."""
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(5000)]
    written = number = 0
    with path.open("w", encoding="utf-8") as file:
        while number < rows and written < size:
            number += 1
            instruction = f"{number} " + " ".join(chance.choices(words, k=12))
            extra = "" if number % 3 else " ".join(chance.choices(words, k=20))
            answer = " ".join(chance.choices(words, k=chance.randint(20, 120)))
            line = json.dumps({"instruction": instruction, "input": extra, "output": answer})
            written += file.write(line + "\n")
    return path


def measured(code: str, *arguments: str) -> dict[str, Any]:
    """Run the code in a process of its own; what it prints last."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: list[str]) -> int:
    """Print what was measured; 1 where a limit is broken."""
    folder = arguments[0] if arguments else None
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = write_rows(Path(place) / "rows.jsonl", rows=ROWS)
        print(f"{ROWS:,} rows, {path.stat().st_size / 1e6:.0f} MB, best of {ROUNDS}")
        rounds = [(measured(OURS, str(path)), measured(THEIRS, str(path), place)) for _ in range(ROUNDS)]
        ratios: dict[str, float] = {}
        for name in ("seconds", "cpu"):
            ours, theirs = (min(pair[side][name] for pair in rounds) for side in (0, 1))
            ratios[name] = ours / theirs
            print(f"  {name:8} judge {ours:6.2f}   datasets {theirs:6.2f}   ratio {ours / theirs:.2f}")
        assert all(ours["rows"] == theirs["rows"] == ROWS for ours, theirs in rounds)
        path.unlink()
        large = write_rows(Path(place) / "large.jsonl", size=LARGE)
        found = measured(OURS, str(large))
        print(f"{large.stat().st_size / 1e9:.2f} GB, {found['rows']:,} rows: {found['seconds']:.0f} s, "
              f"peak {found['peak'] / 1e6:.0f} MB")  # fmt: skip
    good = ratios["seconds"] <= MOST_TIME and found["peak"] < MOST_MEMORY
    print("within the limits" if good else f"MISSED: ratio {MOST_TIME}, {MOST_MEMORY / 1e6:.0f} MB")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
