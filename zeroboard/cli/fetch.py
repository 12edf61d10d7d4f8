"""`zeroboard fetch hub:OWNER/NAME[@REVISION] [--code | --data]`: let it come from the hub once, before it is needed."""

from __future__ import annotations

import argparse
import getpass
import sys

from zeroboard.cli.face import Face, size
from zeroboard.contract.hub import HubKind
from zeroboard.errors import Refused
from zeroboard.messages import Language, say
from zeroboard.planning import hub
from zeroboard.services import fetching


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    parser.add_argument("model", metavar="MODEL", help=say("cli.fetch.model", language))
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--code", action="store_true", help=say("cli.fetch.code", language))
    what.add_argument("--data", action="store_true", help=say("cli.fetch.data", language))


def run(asked: argparse.Namespace, face: Face) -> int:
    ref = fetching.wanted(asked.model, "dataset" if asked.data else "model")

    def fetch(token: str | None) -> hub.HubFolder:
        return fetching.fetch(
            face.paths, ref, code=asked.code, token=token, on_progress=lambda coming: _progress(coming, face, str(ref))
        )

    try:
        found = fetch(fetching.known_token(ref))
    except Refused as refused:
        found = fetch(_typed(refused, face, fetching.known_token(ref)))
    face.clear()
    manifest = found.manifest
    if face.json:
        files = [{"name": file.name, "bytes": file.size, "sha256": file.sha256} for file in manifest.files]
        path = str(found.data if asked.data else found.folder)
        face.print_json({ref.kind: str(ref), "commit": manifest.commit, "path": path, "files": files})
    else:
        face.table((file.name, size(file.size)) for file in manifest.files)
        face.print(face.say("cli.fetch.ready", name=str(ref), commit=manifest.commit, path=str(found.folder)))
    return 0


def come(face: Face, text: str, kind: HubKind, *, code: bool = False) -> None:
    """Let the model or the data of a spec come where it is named by the hub and is not here yet."""

    def ensure(token: str | None) -> None:
        fetching.ensure(
            face.paths,
            text,
            kind=kind,
            code=code,
            token=token,
            on_progress=lambda coming: _progress(coming, face, text),
        )

    ref = hub.parse(text, kind)
    known = fetching.known_token(ref) if ref is not None else None
    try:
        ensure(known)
    except Refused as refused:
        ensure(_typed(refused, face, known))
    face.clear()


def _typed(refused: Refused, face: Face, known: str | None) -> str:
    """A token that a person types at a terminal, where that is what was missing; else raises what was refused."""
    face.clear()
    if refused.problems[0].code != "hub-gated" or known or not sys.stdin.isatty():
        raise refused
    return getpass.getpass(face.say("cli.export.token"))


def _progress(coming: fetching.Coming, face: Face, name: str) -> None:
    words = face.say("cli.fetch.coming", name=name, done=size(coming.done), total=size(coming.total))
    face.progress(words, coming.share)
