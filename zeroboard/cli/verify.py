"""`zeroboard verify PATH|RUN [--base M] [--load]`: what is in this folder, and is it sound."""

from __future__ import annotations

import argparse

from zeroboard.cli.face import Face
from zeroboard.contract.requests import Progress
from zeroboard.messages import Language, say
from zeroboard.services import results, words


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    parser.add_argument("path", metavar="PATH", help=say("cli.option.path", language))
    parser.add_argument("--base", metavar="DIR", help=say("cli.option.base", language))
    parser.add_argument("--load", action="store_true", help=say("cli.verify.load", language))


def run(asked: argparse.Namespace, face: Face) -> int:
    def progress(said: Progress) -> None:
        face.progress(face.say(said.says or f"phase.{said.phase}", **said.params), said.done)

    place = results.place(face.paths, asked.path, asked.base)
    report = results.verify(place.path, base=place.base, load=asked.load, trusted=place.trusted, on_progress=progress)
    said = words.report(report, face.language)
    if face.json:
        face.print_json(said)
    else:
        face.print(face.say("cli.verify.head", path=report.path, kind=report.kind, verdict=report.verdict))
        face.table((c["name"], c["verdict"], c["detail"]) for c in said["checks"])
    return 1 if report.verdict == "fail" else 0
