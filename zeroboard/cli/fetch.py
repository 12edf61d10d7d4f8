"""`zeroboard fetch hub:OWNER/NAME[@REVISION] [--code]`: let a model come from the hub, once, before it is needed."""

from __future__ import annotations

import argparse
import getpass
import os
import sys

from zeroboard.cli.face import Face, size
from zeroboard.errors import Refused
from zeroboard.messages import Language, say
from zeroboard.services import fetching
from zeroboard.services.push import TOKEN


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    parser.add_argument("model", metavar="MODEL", help=say("cli.fetch.model", language))
    parser.add_argument("--code", action="store_true", help=say("cli.fetch.code", language))


def run(asked: argparse.Namespace, face: Face) -> int:
    ref = fetching.wanted(asked.model)

    def fetch(token: str | None) -> fetching.HubModel:
        return fetching.fetch(
            face.paths, ref, code=asked.code, token=token, on_progress=lambda coming: _progress(coming, face)
        )

    try:
        model = fetch(os.environ.get(TOKEN) or None)
    except Refused as refused:
        model = fetch(_typed(refused, face))
    face.clear()
    manifest = model.manifest
    if face.json:
        files = [{"name": file.name, "bytes": file.size, "sha256": file.sha256} for file in manifest.files]
        face.print_json({"model": str(ref), "commit": manifest.commit, "path": str(model.folder), "files": files})
    else:
        face.table((file.name, size(file.size)) for file in manifest.files)
        face.print(face.say("cli.fetch.ready", name=str(ref), commit=manifest.commit, path=str(model.folder)))
    return 0


def come(face: Face, text: str, *, code: bool) -> None:
    """Let the model of a spec come where it is named by the hub and is not here yet."""

    def ensure(token: str | None) -> None:
        fetching.ensure(face.paths, text, code=code, token=token, on_progress=lambda coming: _progress(coming, face))

    try:
        ensure(os.environ.get(TOKEN) or None)
    except Refused as refused:
        ensure(_typed(refused, face))
    face.clear()


def _typed(refused: Refused, face: Face) -> str:
    """A token that a person types at a terminal, where that is what was missing; else raises what was refused."""
    face.clear()
    if refused.problems[0].code != "hub-gated" or os.environ.get(TOKEN) or not sys.stdin.isatty():
        raise refused
    return getpass.getpass(face.say("cli.export.token"))


def _progress(coming: fetching.Coming, face: Face) -> None:
    words = face.say("cli.fetch.coming", done=size(coming.done), total=size(coming.total))
    face.progress(words, coming.share)
