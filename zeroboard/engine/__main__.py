"""The door of the engine.

    python -m zeroboard.engine train RUN_FOLDER     one rank; torchrun (or any launcher that sets RANK) starts it
    python -m zeroboard.engine convert|tokenise|verify|schema|chat     a short verb: see `zeroboard.contract.requests`

Nothing heavy is imported here: a rank's log has to be open before torch is, so that what torch prints while it is
imported lands in that log too, and a verb pays only for what it needs.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import signal
import sys
from pathlib import Path

from zeroboard.engine.channel import Channel
from zeroboard.engine.heart import Heart
from zeroboard.paths import RunPaths

VERBS = {
    "convert": "zeroboard.engine.convert",
    "tokenise": "zeroboard.engine.tokens",
    "sample": "zeroboard.engine.sample",
    "verify": "zeroboard.engine.verify",
    "consolidate": "zeroboard.engine.consolidate",
    "merge": "zeroboard.engine.merge",
    "compare": "zeroboard.engine.compare",
    "schema": "zeroboard.engine.schema",
    "toolchain": "zeroboard.engine.toolchain",
    "export": "zeroboard.engine.export",
    "chat": "zeroboard.engine.chat",
}
"""Verb → module; its `main(channel: Channel) -> int` is called and returns the exit code."""

USAGE = f"usage: python -m zeroboard.engine train RUN_FOLDER | {' | '.join(VERBS)}"


def main(argv: list[str]) -> int:
    """Run one verb; returns its exit code (2: no such verb)."""
    # whatever a library looks up, it looks up on this disk: a path that is missing is an error, never a download
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # DeepSpeed compiles its CPU ops with ninja, which pip puts beside this interpreter, and looks for it on the PATH
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    match argv:
        case ["train", folder]:
            run = RunPaths(Path(folder).absolute())
            rank = int(os.environ.get("RANK", "0"))
            open_log(run.rank_log(rank))
            heart = Heart(run, rank)
            heart.start()
            try:
                return int(importlib.import_module("zeroboard.engine.train").main(run, heart))
            finally:
                heart.stop()
        case [verb] if verb in VERBS:
            faulthandler.enable()
            channel = Channel.open()
            return int(importlib.import_module(VERBS[verb]).main(channel))
        case _:
            sys.stderr.write(USAGE + "\n")
            return 2


def open_log(path: Path) -> None:
    """Put standard output and error of this process, C libraries included, onto the end of a file, line by line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.stderr.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    faulthandler.enable()
    # whoever wonders why nothing moves sends this signal: every thread's stack lands in the log, and work goes on
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
