"""`zeroboard prepare`: convert the bundled models now, so that the first run need not wait for it."""

from __future__ import annotations

import argparse

from zeroboard.catalogue import MODELS
from zeroboard.cli.face import Face
from zeroboard.contract.requests import Progress
from zeroboard.messages import Language
from zeroboard.services.models import prepare_model


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    """No arguments of its own."""


def run(asked: argparse.Namespace, face: Face) -> int:
    def progress(said: Progress) -> None:
        face.progress(face.say(f"phase.{said.phase}"), said.done)

    ready = {model.name: prepare_model(face.paths, model.name, on_progress=progress) for model in MODELS}
    if face.json:
        face.print_json({"models": {name: str(folder) for name, folder in ready.items()}})
    else:
        for name, folder in ready.items():
            face.print(face.say("cli.prepare.ready", name=name, path=str(folder)))
    return 0
