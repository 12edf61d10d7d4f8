"""The processes of this room.

python -m zeroboard.runs supervise [--adopt] RUN_FOLDER    live a planned run to its end
python -m zeroboard.runs prepare RUN_FOLDER                what comes before the ranks, for a run that others launch
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from zeroboard.errors import ZeroBoardError
from zeroboard.paths import RunPaths
from zeroboard.runs.supervisor import prepare_only, supervise


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m zeroboard.runs", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("supervise", help="live a planned run to its end")
    verb.add_argument("--adopt", action="store_true", help="go on with a run whose supervisor died")
    verb.add_argument("folder", type=Path, help="the run's folder")
    verb = verbs.add_parser("prepare", help="convert the model and tokenise the data of a planned run, and no more")
    verb.add_argument("folder", type=Path, help="the run's folder")
    asked = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        run = RunPaths(asked.folder.absolute())
        return prepare_only(run) if asked.verb == "prepare" else supervise(run, adopt=asked.adopt)
    except ZeroBoardError as error:
        logging.getLogger(__name__).error("%s", error)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
