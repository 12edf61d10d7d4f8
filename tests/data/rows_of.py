"""Rows and files for the tests of this room."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zeroboard.contract.reports import DataReport
from zeroboard.data.conversations import conversations
from zeroboard.messages import LANGUAGES, has, say


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def alpaca(output: Any = "An answer.", **more: Any) -> dict[str, Any]:
    return {"instruction": "A question?", "input": "", "output": output, **more}


def chat(*turns: tuple[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


def codes(report: DataReport) -> dict[str, tuple[int, ...]]:
    """Code → rows, without what is told of copies; every problem's sentence must be there in every language, filled to
    the last place."""
    for problem in report.problems:
        for language in LANGUAGES:
            assert has(problem.message_key, language), problem.message_key
            assert "{" not in say(problem.message_key, language, **problem.params)
            assert has(f"{problem.message_key}.remedy", language), problem.message_key
    return {problem.code: problem.rows for problem in report.problems if problem.code != "duplicate-row"}


def turns(path: Path) -> list[list[tuple[str, str]]]:
    return [[(turn.role, turn.content) for turn in c.turns] for c in conversations(path)]
