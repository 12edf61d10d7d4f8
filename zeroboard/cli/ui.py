"""`zeroboard ui`: open the dashboard. Only the flags are read here."""

from __future__ import annotations

import argparse
from pathlib import Path

from zeroboard.cli.face import Face
from zeroboard.errors import NotFound, UsageError
from zeroboard.messages import Language, say


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    parser.add_argument("--host", default="127.0.0.1", help=say("cli.ui.host", language))
    parser.add_argument("--port", type=int, default=7860, help=say("cli.ui.port", language))
    parser.add_argument("--auth", metavar="USER:PASS", help=say("cli.ui.auth", language))
    parser.add_argument("--auth-file", metavar="F", help=say("cli.ui.auth-file", language))
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help=say("cli.ui.allow-host", language)
    )
    parser.add_argument("--root-path", default="", metavar="/p", help=say("cli.ui.root-path", language))


def run(asked: argparse.Namespace, face: Face) -> int:
    from zeroboard.ui import serve  # Gradio takes seconds: `ui --help` and a wrong flag are told without it

    serve(
        face.settings,
        host=asked.host,
        port=asked.port,
        lang=face.language if face.language_chosen else None,
        allow_hosts=tuple(asked.allow_host),
        root_path=asked.root_path,
        auth=_auth(asked),
    )
    return 0


def _auth(asked: argparse.Namespace) -> str | None:
    """`USER:PASS` from the flag or from the first line of a file; raises `UsageError`."""
    if asked.auth is not None and asked.auth_file is not None:
        raise UsageError("cli.ui.auth-twice")
    if asked.auth_file is None:
        return asked.auth  # type: ignore[no-any-return]
    path = Path(asked.auth_file).expanduser()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise NotFound("error.path-not-found", path=str(path)) from error
    if not lines or ":" not in lines[0]:
        raise UsageError("cli.ui.auth-file-form", path=str(path))
    return lines[0].strip()
