"""The command line: one small file a command, each loaded only when it is asked for.

`python -m zeroboard <command>`. Exit codes: 0 done, 1 judged and refused, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import io
import logging
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from zeroboard import __version__
from zeroboard.cli.face import Face, OutputLost
from zeroboard.errors import UsageError, ZeroBoardError
from zeroboard.files import write_atomic
from zeroboard.messages import LANGUAGES, Language, say
from zeroboard.services import words
from zeroboard.settings import read_settings

COMMANDS = (
    "ui",
    "doctor",
    "data",
    "config",
    "plan",
    "train",
    "runs",
    "show",
    "stop",
    "diagnose",
    "verify",
    "export",
    "chat",
    "spec",
    "prepare",
    "fetch",
)
"""Each is a module here with `configure(parser, language)` and `run(asked, face) -> int`."""

INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    language: Language = "en"

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(say("cli.usage", self.language, message=message, command=self.prog) + "\n")
        raise SystemExit(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    _prepare_streams()
    try:
        return _main(list(sys.argv[1:] if argv is None else argv))
    except (OutputLost, BrokenPipeError) as lost:
        if not isinstance(lost.__cause__ or lost, BrokenPipeError):
            sys.stderr.write(say("cli.output-lost", _Parser.language, why=str(lost)) + "\n")
        # what is still in the buffer would be tried once more, and complained about, when the interpreter leaves
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _prepare_streams() -> None:
    """Words that a terminal has no letters for are written as their numbers; a closed stream is a silent one."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # open for as long as the process lives
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _main(words_given: Sequence[str]) -> int:
    _Parser.language = _language(words_given)
    try:
        asked = _parser(words_given).parse_args(words_given)
    except SystemExit as done:  # argparse leaves by itself after --help or a fault
        return int(done.code or 0)
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    try:
        settings = read_settings(cache=getattr(asked, "cache", None))
    except UsageError as error:
        sys.stderr.write(say(error.says, _Parser.language, **error.params) + "\n")
        return error.exit_code
    face = Face(
        settings=settings,
        language=_Parser.language,
        language_chosen=getattr(asked, "lang", None) is not None,
        json=getattr(asked, "json", False),
    )
    try:
        return int(importlib.import_module(f"zeroboard.cli.{asked.command}").run(asked, face))
    except (OutputLost, BrokenPipeError):
        raise
    except ZeroBoardError as error:
        if getattr(asked, "debug", False):
            raise
        return _refused(error, face)
    except KeyboardInterrupt:
        face.note(say("cli.interrupted", face.language))
        return INTERRUPTED
    except Exception as error:
        if getattr(asked, "debug", False):
            raise
        return _unexpected(error, face)


def _refused(error: ZeroBoardError, face: Face) -> int:
    """Say what stood in the way."""
    problems = words.error(error, face.language)
    if face.json and error.exit_code == 1:
        face.print_json({"problems": problems})
        return error.exit_code
    for problem in problems:
        face.problem(problem, one_line=error.exit_code == 2)
    return error.exit_code


def _unexpected(error: Exception, face: Face) -> int:
    """One line that names a log with the rest; what the operating system refuses needs none."""
    if isinstance(error, OSError) and error.errno is not None:
        path = str(error.filename or face.paths.root)
        return _refused(ZeroBoardError("error.system", path=path, why=error.strerror or str(error)), face)
    log = face.paths.logs / f"error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    said = {"type": type(error).__name__, "message": str(error)[:300], "log": str(log)}
    try:
        write_atomic(log, "".join(traceback.format_exception(error)))
    except OSError as full:
        said["log"] = f"({full})"
    line = say("cli.unexpected", face.language, **said)
    if face.json:
        face.print_json({"problems": [{"code": "unexpected", "severity": "error", "field": None, "message": line}]})
    else:
        face.note(line)
    return 1


def _language(argv: Sequence[str]) -> Language:
    """`--lang` is looked for first, so that faults of the usage are told in it as well."""
    for at, word in enumerate(argv):
        value = (
            word.partition("=")[2] if word.startswith("--lang=") else argv[at + 1 : at + 2] if word == "--lang" else ""
        )
        value = value[0] if isinstance(value, list) and value else value
        for language in LANGUAGES:
            if value == language:
                return language
    return "en"


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    language = _Parser.language
    common = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("--json", action="store_true", help=say("cli.option.json", language))
    common.add_argument("--cache", metavar="DIR", help=say("cli.option.cache", language))
    common.add_argument("--lang", choices=LANGUAGES, help=say("cli.option.lang", language))
    common.add_argument("--debug", action="store_true", help=say("cli.option.debug", language))
    parser = _Parser(prog="zeroboard", description=say("cli.about", language), parents=[common])
    parser.add_argument("--version", action="version", version=f"zeroboard {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    for name in COMMANDS:
        said = say(f"cli.{name}.help", language)
        command = commands.add_parser(name, help=said, description=said, parents=[common])
        if name in argv:  # only what is asked for is loaded
            importlib.import_module(f"zeroboard.cli.{name}").configure(command, language)
    return parser
