"""The front door of the page: `python app.py` is `zeroboard ui`, with the same flags."""

from __future__ import annotations

import sys

from zeroboard.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["ui", *sys.argv[1:]]))
