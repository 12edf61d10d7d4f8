"""`zeroboard data FILE`: judges a data file row by row."""

from __future__ import annotations

import argparse

from zeroboard.cli.face import Face
from zeroboard.messages import Language, say
from zeroboard.services import words
from zeroboard.services.prepare import judge_data


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    parser.add_argument("file", metavar="FILE", help=say("cli.data.file", language))


def run(asked: argparse.Namespace, face: Face) -> int:
    report = judge_data(asked.file)
    said = words.data(report, face.language)
    if face.json:
        face.print_json(said)
    else:
        rows = said["rows"]
        face.print(face.say("cli.data.head", path=report.path, format=report.format, encoding=report.encoding, **rows))
        face.table(
            (p["code"], p["severity"], str(p["count"]), ", ".join(str(row) for row in p["rows"]), p["message"])
            for p in said["problems"]
        )
    return 0 if report.usable else 1
