"""`zeroboard export PATH|RUN --to DIR [--merge] [--dtype] [--shard-size] [--gguf TYPE] [--push REPO]`: deliver it."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from typing import Any, get_args

from zeroboard.cli.face import Face, size
from zeroboard.contract.exports import ExportState, ExportWish
from zeroboard.contract.plan import Dtype
from zeroboard.errors import Refused
from zeroboard.messages import Language, say
from zeroboard.services import exporting, exports, push, words


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    def told(name: str) -> str:
        return say(f"cli.export.{name}", language)

    parser.add_argument("path", metavar="PATH", help=told("path"))
    parser.add_argument("--to", metavar="DIR", required=True, help=told("to"))
    parser.add_argument("--merge", action="store_true", help=told("merge"))
    parser.add_argument("--dtype", choices=get_args(Dtype), help=told("dtype"))
    parser.add_argument("--shard-size", default="5GB", metavar="SIZE", help=told("shard-size"))
    parser.add_argument("--base", metavar="DIR", help=say("cli.option.base", language))
    parser.add_argument("--gguf", metavar="TYPE", help=told("gguf"))
    parser.add_argument("--llama-cpp", metavar="DIR", help=told("llama-cpp"))
    parser.add_argument("--push", metavar="REPO", help=told("push"))
    parser.add_argument("--public", action="store_true", help=told("public"))
    parser.add_argument("--trust-pickles", action="store_true", help=told("trust-pickles"))


def run(asked: argparse.Namespace, face: Face) -> int:
    wish = exporting.wish(
        face.paths,
        asked.path,
        exports.any_target(asked.to),
        base=asked.base,
        merge=asked.merge,
        dtype=asked.dtype,
        shard_bytes=exports.parse_size(asked.shard_size),
        gguf=asked.gguf.lower() if asked.gguf else None,
        llama_cpp=asked.llama_cpp,
        push=asked.push,
        public=asked.public,
        trust_pickles=asked.trust_pickles,
        language=face.language,
    )
    state, job = exporting.run(face.paths, wish, _token(wish, face), on_state=lambda state: _progress(state, face))
    face.clear()
    if state.state == "cancelled":
        raise KeyboardInterrupt
    report = exports.read_report(job)
    if report is None:
        raise Refused(state.problems)
    said = words.export(state, report, face.language)
    if face.json:
        face.print_json(said)
    else:
        _print(said, face)
    return 0 if state.state == "finished" else 1


def _token(wish: ExportWish, face: Face) -> str | None:
    """From the environment, else typed by the person at a terminal; only where something is to be sent."""
    if wish.push is None:
        return None
    known = os.environ.get(push.TOKEN)
    return known or (getpass.getpass(face.say("cli.export.token")) if sys.stdin.isatty() else None)


def _progress(state: ExportState, face: Face) -> None:
    if state.state == "running" and state.says is not None:
        face.progress(face.say(state.says, **state.params), state.done)


def _print(said: dict[str, Any], face: Face) -> None:
    face.print(face.say("cli.export.head", path=said["path"], kind=said["kind"], verdict=said["verdict"]))
    face.table((file["name"], size(file["bytes"])) for file in said["files"])
    face.print()
    face.table((check["name"], check["verdict"], check["detail"]) for check in said["checks"])
    for problem in (*said["notes"], *said["problems"]):
        face.problem(problem)
    if said["pushed"]:
        face.print(face.say("cli.export.pushed", address=said["pushed"]))
