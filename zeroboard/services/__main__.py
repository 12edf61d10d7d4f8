"""The processes of this room, which outlive the page that starts them.

python -m zeroboard.services export FOLDER    do what the record of an export in FOLDER asks for
python -m zeroboard.services push FILE        send a folder to the hub (the request comes on standard input)
python -m zeroboard.services download FILE    fetch a model from the hub (the same), telling FILE how far it is
"""

from __future__ import annotations

import importlib
import logging
import sys
from pathlib import Path

VERBS = {
    "export": "zeroboard.services.export_work",
    "push": "zeroboard.services.hub",
    "download": "zeroboard.services.download",
}
"""Verb → module; its `main(path: Path) -> int` is called and returns the exit code."""


def main(argv: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    match argv:
        case [verb, path] if verb in VERBS:
            return int(importlib.import_module(VERBS[verb]).main(Path(path)))
    sys.stderr.write((__doc__ or "") + "\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
