"""`python -m zeroboard`: the command line."""

import sys

from zeroboard.cli import main

if __name__ == "__main__":
    sys.exit(main())
