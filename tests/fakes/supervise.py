"""The real supervisor in a process of its own, whose engine verbs are the fake's: `supervise.py [--adopt] FOLDER`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from tests.fakes import QUICK, popen
from zeroboard.paths import RunPaths
from zeroboard.runs.supervisor import supervise

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    sys.exit(supervise(RunPaths(Path(sys.argv[-1])), adopt="--adopt" in sys.argv, popen=popen, timing=QUICK))
