"""`zeroboard diagnose LOG_OR_RUN`: why did it fail."""

from __future__ import annotations

import argparse
from typing import Any

from zeroboard.cli.face import Face
from zeroboard.messages import Language, say
from zeroboard.services import diagnose

EMPTY = 1
"""Exit code of a log that holds nothing: it was judged, and there was nothing to judge."""


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    parser.add_argument("place", metavar="LOG_OR_RUN", help=say("cli.diagnose.place", language))


def run(asked: argparse.Namespace, face: Face) -> int:
    found = diagnose.diagnose(face.paths, asked.place)
    said = diagnose.said(found.diagnosis, face.language)
    if found.empty:
        face.note(face.say("cli.diagnose.empty", path=found.path))
    if face.json:
        face.print_json(said)
    elif not found.empty:
        _print(said, face)
    return EMPTY if found.empty else 0


def _print(said: dict[str, Any], face: Face) -> None:
    if said["root"] is None:
        face.print(face.say("cli.diagnose.nothing"))
    for finding in said["findings"]:
        print_finding(finding, face, remedies=len(finding["remedies"]))


def print_finding(finding: dict[str, Any], face: Face, *, remedies: int = 1) -> None:
    """What was found, the line that shows it, and what to do (the first so many remedies)."""
    colours = {"error": "red", "warning": "yellow"}
    word = face.colour(face.say(f"cli.severity.{finding['severity']}"), colours.get(finding["severity"], "dim"))
    rank = "" if finding["rank"] is None else face.say("cli.diagnose.rank", rank=finding["rank"]) + " "
    face.print(f"{word} {rank}{finding['message']} [{finding['code']}]")
    evidence = finding["evidence"]
    if evidence is not None:
        place = evidence["file"] if evidence["line"] is None else f"{evidence['file']}:{evidence['line']}"
        face.print(face.colour(f"  {place}: {evidence['text'].splitlines()[0] if evidence['text'] else ''}", "dim"))
    if finding["echoes"]:
        face.print("  " + face.say("cli.diagnose.echoes", count=finding["echoes"]))
    for remedy in finding["remedies"][:remedies]:
        fields = " ".join(f"--set {key}={_value(value)}" for key, value in (remedy["set"] or {}).items())
        face.print(f"  → {remedy['text']}" + (f" ({fields})" if fields else ""))


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
