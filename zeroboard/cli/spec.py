"""`zeroboard spec [--schema]`: a commented example of a specification, or its JSON schema."""

from __future__ import annotations

import argparse

from zeroboard.cli.face import Face
from zeroboard.contract.spec import RunSpec
from zeroboard.messages import Language, say
from zeroboard.planning import specs


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    parser.add_argument("--schema", action="store_true", help=say("cli.spec.schema", language))


def run(asked: argparse.Namespace, face: Face) -> int:
    if asked.schema:
        face.print_json(RunSpec.model_json_schema())
    elif face.json:
        face.print_json({"example": specs.commented_example(face.language)})
    else:
        face.print(specs.commented_example(face.language).rstrip())
    return 0
