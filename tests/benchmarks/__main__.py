"""Benchmarks: what was promised, measured here and now.

python -m tests.benchmarks               says which there are
python -m tests.benchmarks NAME ...      runs them one after the other; one that breaks its promise ends with 1
"""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path


def main(names: list[str]) -> int:
    """The number of the named benchmarks that broke their promise, at most 1."""
    there = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.py")) if not path.stem.startswith("_")}
    strange = [name for name in names if name not in there]
    if not names or strange:
        for name, path in there.items():
            words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            print(f"{name:12} {words.splitlines()[0]}")
        return 2 if strange else 0
    broken = 0
    for name in names:
        print(f"== {name}", flush=True)
        broken |= bool(importlib.import_module(f"tests.benchmarks.{name}").main([]))
    return broken


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
