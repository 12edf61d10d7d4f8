"""Processes of their own, for the driver's library may hang or crash.

`python -m zeroboard.monitor probe` tells what NVML tells, once; `watch` tells it again and again, a line a reading;
`poll --cache DIR` is the poller of a cache, which keeps a `watch`.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from zeroboard.paths import Paths


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m zeroboard.monitor", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("probe", help="ask once")
    watch = verbs.add_parser("watch", help="ask again and again")
    watch.add_argument("--interval", type=float, default=1.0, help="seconds between two readings")
    poll = verbs.add_parser("poll", help="keep now.json of a cache as long as it is wanted")
    poll.add_argument("--cache", type=Path, required=True)
    poll.add_argument("--interval", type=float, default=1.0, help="seconds between two readings")
    poll.add_argument("--idle", type=float, default=30.0, help="seconds without anybody who wants it before it leaves")
    asked = parser.parse_args(argv)
    if asked.verb == "poll":
        from zeroboard.monitor.poller import Pace
        from zeroboard.monitor.poller import poll as keep

        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        return keep(Paths(asked.cache.absolute()), Pace(interval=asked.interval, idle=asked.idle))
    from zeroboard.monitor import watch as watching  # the gate to NVML: not for the poller, who never asks it himself

    return watching.once(sys.stdout) if asked.verb == "probe" else watching.forever(sys.stdout, asked.interval)


if __name__ == "__main__":
    sys.exit(main())
