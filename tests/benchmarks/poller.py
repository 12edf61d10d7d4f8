"""What the poller costs: per cent of a core for the poller and its child, at one reading a second.

    python -m tests.benchmarks.poller [SECONDS]      eight scripted GPUs (gcc and ../shared/nvml), then the host alone

Measured is the processor's time of both processes once they have started up, which is done once. The scripted library
reads its file anew at each question, some 50 µs of the processor, which is most of what the child spends here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests.fakes import nvml
from zeroboard.contract import poller
from zeroboard.paths import HOME, Paths

SECONDS = 20.0
SETTLE = 5.0
"""Seconds for which they start up."""
WINDOW = 4.0
"""Seconds of one measurement; the median counts, for the same work takes longer where others use the caches."""
LIMIT = 1.0
"""Per cent of a core that is promised."""


def spent(process: psutil.Process) -> float:
    """Seconds of processor time so far: to the nanosecond where the kernel tells it, else in its ticks."""
    try:
        return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9
    except FileNotFoundError:
        pass
    times = process.cpu_times()
    return float(times.user + times.system)


def window(watched: list[psutil.Process], paths: Paths) -> tuple[float, float]:
    """Per cent of a core of the first process, and of the others, in one window; the poller is kept wanted."""
    before, since = [spent(process) for process in watched], time.monotonic()
    time.sleep(WINDOW)
    paths.wanted.touch()
    passed = time.monotonic() - since
    own, *others = [100 * (spent(process) - was) / passed for process, was in zip(watched, before, strict=True)]
    return own, sum(others)


def measure(folder: Path, environment: dict[str, str] | None, seconds: float) -> tuple[float, float, int]:
    """(per cent of a core of the poller, of its children, GPUs that it tells); the median of the windows."""
    paths = Paths(folder)
    paths.monitor.mkdir(parents=True)
    paths.wanted.touch()
    with subprocess.Popen(poller.argv(paths), cwd=HOME, env=environment) as started:
        try:
            time.sleep(SETTLE)
            watched = [psutil.Process(started.pid), *psutil.Process(started.pid).children()]
            windows = [window(watched, paths) for _ in range(max(1, round(seconds / WINDOW)))]
            told = poller.fresh(paths)
            assert told is not None, "the poller told nothing"
            own, child = sorted(windows, key=sum)[len(windows) // 2]
            return own, child, len(told.gpus)
        finally:
            started.terminate()


def main(argv: list[str] | None = None) -> int:
    given = sys.argv[1:] if argv is None else argv
    seconds = float(given[0]) if given else SECONDS
    reason = nvml.missing()
    with tempfile.TemporaryDirectory(prefix="zb-poller-") as name:
        folder = Path(name)
        cases: list[tuple[str, dict[str, str] | None]] = [("the host alone", None)]
        if reason is None:
            cases.insert(0, ("eight GPUs", nvml.environment(nvml.build(folder), nvml.scenario("eight_gpus"))))
        else:
            print(reason)
        worst = 0.0
        for number, (words, environment) in enumerate(cases):
            own, child, gpus = measure(folder / str(number), environment, seconds)
            worst = max(worst, own + child)
            print(f"poller, {words} ({gpus} GPUs): {own:.2f} % + child {child:.2f} % = {own + child:.2f} % of a core")
    print(f"load of the machine meanwhile: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"ratio to the limit of {LIMIT:.0f} % of a core: {worst / LIMIT:.2f}")
    return 0 if worst < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
