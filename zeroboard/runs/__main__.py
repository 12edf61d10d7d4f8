"""`python -m zeroboard.runs supervise [--adopt] RUN_FOLDER`: the supervisor of one run."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from zeroboard.errors import ZeroBoardError
from zeroboard.paths import RunPaths
from zeroboard.runs.supervisor import supervise


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m zeroboard.runs", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("supervise", help="live a planned run to its end")
    verb.add_argument("--adopt", action="store_true", help="go on with a run whose supervisor died")
    verb.add_argument("folder", type=Path, help="the run's folder")
    asked = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        return supervise(RunPaths(asked.folder.absolute()), adopt=asked.adopt)
    except ZeroBoardError as error:
        logging.getLogger(__name__).error("%s", error)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
