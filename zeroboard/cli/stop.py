"""`zeroboard stop RUN [--discard]`: ask a run to stop."""

from __future__ import annotations

import argparse

from zeroboard.cli.face import Face
from zeroboard.messages import Language, say
from zeroboard.services import runs


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    parser.add_argument("run", metavar="RUN", help=say("cli.option.run", language))
    parser.add_argument("--discard", action="store_true", help=say("cli.stop.discard", language))


def run(asked: argparse.Namespace, face: Face) -> int:
    run_id = runs.find(face.paths, asked.run)
    state = runs.stop(face.paths, run_id, discard=asked.discard)
    if face.json:
        face.print_json({"id": run_id, "state": state.state, "stop": state.stop})
    else:
        face.print(face.say("cli.stop.discarding" if state.stop == "discard" else "cli.stop.saving", run=run_id))
    return 0
