"""`zeroboard ui`: open the dashboard. Only the flags are read here."""

from __future__ import annotations

import argparse

from zeroboard.cli.face import Face
from zeroboard.errors import NotFound, UsageError
from zeroboard.messages import Language, say
from zeroboard.paths import reachable

LONGEST = 4096
"""Characters of the line that holds the login."""


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    parser.add_argument("--host", default="127.0.0.1", help=say("cli.ui.host", language))
    parser.add_argument("--port", type=port, default=7860, help=say("cli.ui.port", language))
    parser.add_argument("--auth", metavar="USER:PASS", help=say("cli.ui.auth", language))
    parser.add_argument("--auth-file", metavar="F", help=say("cli.ui.auth-file", language))
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help=say("cli.ui.allow-host", language)
    )
    parser.add_argument("--root-path", default="", metavar="/p", help=say("cli.ui.root-path", language))


def port(text: str) -> int:
    """A port; raises `ValueError` where it is none."""
    number = int(text)
    if not 0 <= number < 1 << 16:
        raise ValueError(text)
    return number


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
    path = reachable(asked.auth_file)
    if path is None:
        raise NotFound("error.path-not-found", path=asked.auth_file)
    try:
        if not path.is_file():
            raise UsageError("cli.ui.auth-file-form", path=str(path))
        with path.open(encoding="utf-8") as stream:
            first = stream.readline(LONGEST)
    except UnicodeDecodeError as error:
        raise UsageError("cli.ui.auth-file-form", path=str(path)) from error
    except OSError as error:
        raise UsageError("error.unreadable", path=str(path), why=error.strerror or str(error)) from error
    if ":" not in first:
        raise UsageError("cli.ui.auth-file-form", path=str(path))
    return first.strip()
