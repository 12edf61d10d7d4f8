"""The file tree of the README, made from the first sentence of each module's docstring, so that it cannot grow stale.

python -m tests.tree      (`make tree`) writes it into README.md
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
START, END = "<!-- tree: made by `make tree` -->\n```text\n", "```\n<!-- end of tree -->"
WIDTH = 30
"""Column of the comments."""
LONGEST = 150

AROUND = {
    "app.py": None,
    "Makefile": "set-up, start and checks",
    "pyproject.toml": "what it needs; the rules of linter, types and tests; the fence between the rooms",
    "README.md": "this page",
    "CONTRIBUTING.md": "what a change has to pass, and the rules of the house",
    "LICENSE": "Apache License 2.0",
    ".ci/run": "the same checks on a bare machine",
    "docs/": "guide in two languages, command line, serving behind a proxy, decisions that bind what comes later",
    "assets/": "data, not code: demo, sentences in two languages, stylesheet, notices",
    "cache/": "everything that the program writes: runs, prepared models, tokens, locks, logs",
    "tests/": "mirrors zeroboard/ file by file",
    "zeroboard/": "the package",
}
"""What lies at the top → its comment; None: its docstring's."""


def purpose(path: Path) -> str:
    """The first sentence of a module's docstring, in one line."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    line = " ".join(text.split("\n\n", 1)[0].split())
    first = line.split(". ", 1)[0].rstrip(".")
    return first if len(first) <= LONGEST else first[: LONGEST - 2].rsplit(" ", 1)[0] + " …"


def tree() -> str:
    """The whole tree."""
    lines = [_line(name, comment or purpose(ROOT / name)) for name, comment in AROUND.items()]
    return "\n".join([*lines, *_room(ROOT / "zeroboard", 1)]) + "\n"


def _room(folder: Path, depth: int) -> list[str]:
    lines = []
    for path in sorted(folder.glob("*.py")):
        if path.name != "__init__.py":
            lines.append(_line("  " * depth + path.name, purpose(path)))
    for path in sorted(folder.iterdir()):
        if (path / "__init__.py").is_file():
            lines.append(_line("  " * depth + path.name + "/", purpose(path / "__init__.py")))
            lines += _room(path, depth + 1)
    return lines


def _line(name: str, comment: str) -> str:
    return f"{name:<{WIDTH}}{comment}".rstrip()


def written() -> str:
    """The tree that stands in the README now."""
    return README.read_text(encoding="utf-8").split(START, 1)[1].split(END, 1)[0]


def write() -> None:
    text = README.read_text(encoding="utf-8")
    head, rest = text.split(START, 1)
    README.write_text(head + START + tree() + END + rest.split(END, 1)[1], encoding="utf-8")


if __name__ == "__main__":
    write()
