"""`zeroboard data FILE`: judges a data file row by row."""

from __future__ import annotations

import argparse
import time

from zeroboard.cli.face import Face
from zeroboard.messages import Language, say
from zeroboard.services import words
from zeroboard.services.prepare import judge_data

PATIENCE = 2.0
"""Seconds without a word; what takes longer shows its progress."""


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    parser.add_argument("file", metavar="FILE", help=say("cli.data.file", language))


def run(asked: argparse.Namespace, face: Face) -> int:
    started = time.monotonic()

    def told(share: float) -> None:
        if time.monotonic() - started > PATIENCE:
            face.progress(face.say("cli.data.reading", path=asked.file), share)

    report = judge_data(asked.file, told)
    face.clear()
    said = words.data(report, face.language)
    if face.json:
        face.print_json(said)
    else:
        _show(face, said, path=report.path)
    return 0 if report.usable else 1


def _show(face: Face, said: dict[str, object], path: str) -> None:
    """For a person: counts, then each kind of problem with its rows and the beginning of the first of them."""
    rows, problems, files = said["rows"], said["problems"], said["files"]
    assert isinstance(rows, dict) and isinstance(problems, list) and isinstance(files, list)
    face.print(face.say("cli.data.head", path=path, format=said["format"], encoding=said["encoding"], **rows))
    face.table((f["name"], f["format"], f"{f['first']}–{f['first'] + f['rows'] - 1}") for f in files)
    for problem in problems:
        face.table([(problem["severity"], problem["code"], str(problem["count"]), problem["message"])])
        if problem["excerpt"]:
            face.print("    " + face.colour(problem["excerpt"], "dim"))
