"""`zeroboard runs`: the registry."""

from __future__ import annotations

import argparse
import time

from zeroboard.cli.face import Face, number
from zeroboard.messages import Language
from zeroboard.services import runs, words


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    """No arguments of its own."""


def run(asked: argparse.Namespace, face: Face) -> int:
    runs.adopt_orphans(face.paths)
    found = runs.list_runs(face.paths)
    if face.json:
        face.print_json(
            {
                "runs": [
                    {
                        **state.model_dump(mode="json"),
                        "problem": words.problem(state.problem, face.language) if state.problem is not None else None,
                    }
                    for state in found
                ]
            }
        )
        return 0
    if not found:
        face.print(face.say("cli.runs.none", folder=str(face.paths.runs)))
        return 0
    face.table(
        (
            (
                state.id,
                state.state,
                state.model,
                state.method,
                state.stage if state.offload == "none" else f"{state.stage} + {state.offload}",
                f"{state.step}/{'–' if state.steps is None else state.steps}",
                number(state.loss),
                time.strftime("%Y-%m-%d %H:%M", time.localtime(state.created)),
            )
            for state in found
        ),
        head=[
            face.say(f"cli.runs.{name}") for name in ("id", "state", "model", "method", "zero", "step", "loss", "made")
        ],
    )
    return 0
