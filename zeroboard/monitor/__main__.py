"""`python -m zeroboard.monitor probe`: what NVML tells, as JSON; a process of its own, for the library may crash."""

from __future__ import annotations

import argparse
import sys

from zeroboard.monitor.nvml import probe


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m zeroboard.monitor", description=__doc__)
    parser.add_argument("verb", choices=["probe"])
    parser.parse_args(argv)
    sys.stdout.write(probe().model_dump_json() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
