"""Short engine verbs, by their argv: one line of JSON in, progress lines and an answer out.

See `contract/requests.py` for the protocol. Standard output holds the protocol alone, so a line that is none of it is a
fault of the engine, and is logged; standard error goes to a log, whose last lines are quoted where the verb fails.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import ValidationError

from zeroboard.contract.base import Record
from zeroboard.contract.requests import VERB_LINE, Answer, Progress
from zeroboard.errors import EngineFailed
from zeroboard.paths import HOME
from zeroboard.runs.launcher import Popen
from zeroboard.settings import SECRETS

log = logging.getLogger(__name__)

Verb = Literal[
    "convert", "tokenise", "sample", "verify", "consolidate", "merge", "compare", "export", "schema", "toolchain"
]

TAIL = 4000
"""Bytes of the log that are quoted."""

LEAVE = 60.0
"""Seconds that a verb has to leave after it closed its standard output."""

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
"""Set for every verb: a local path never becomes a request to a hub."""

PATIENT = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Unless somebody has set it: a verb's threads sleep while they wait for each other. By default they spin, which costs
nothing on an idle machine, and beside a training on the same cores makes a forward pass some six times as slow, because
each spins away the time that the one it waits for needs."""


def environment(env: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of a verb: this one (None: this process's own) without secrets, offline, and patient."""
    given = os.environ if env is None else env
    return {**PATIENT, **{key: value for key, value in given.items() if key not in SECRETS}, **OFFLINE}


class Cancelled(Exception):
    """The caller asked that the verb be ended (`cancelled` returned True); its process is gone."""


def argv(verb: str) -> list[str]:
    """The command of a verb."""
    return [sys.executable, "-m", "zeroboard.engine", verb]


def call(
    verb: Verb,
    request: Record,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    env: Mapping[str, str] | None = None,
    popen: Popen = subprocess.Popen,
    log_to: Path | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Answer:
    """Run a verb to its end and return its answer; the answer may hold problems instead of a value.

    `env` is the whole environment (None: this process's own). `log_to` is appended to. `cancelled` is asked about five
    times a second. Raises `EngineFailed` (params `verb`, `code`, `tail`) where the process ends without an answer or
    with an exit code other than 0, and `Cancelled`.
    """
    with _log(log_to) as errors:
        process = popen(
            argv(verb),
            cwd=HOME,
            env=environment(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            _ask(process, request)
            answer = None
            for line in _lines(process, cancelled):
                said = _parse(line, verb)
                if isinstance(said, Answer):
                    answer = said
                elif said is not None and on_progress is not None:
                    on_progress(said)
            code = _exit_code(process)
        finally:
            _end(process)
        if code != 0 or answer is None:
            raise EngineFailed("error.engine-failed", verb=verb, code=code, tail=last_words(errors))
        return answer


@contextmanager
def _log(path: Path | None) -> Iterator[IO[bytes]]:
    if path is None:
        with tempfile.TemporaryFile() as stream:
            yield stream
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as stream:
            yield stream


def _ask(process: subprocess.Popen[Any], request: Record) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(request.model_dump_json().encode() + b"\n")
        process.stdin.close()
    except BrokenPipeError:  # it died before it could listen; its exit code and its log tell why
        log.warning("the engine closed its standard input early")


def _lines(process: subprocess.Popen[Any], cancelled: Callable[[], bool] | None) -> Iterator[bytes]:
    """The lines of standard output until its end; asks `cancelled` in between."""
    assert process.stdout is not None
    handle = process.stdout.fileno()
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(handle, selectors.EVENT_READ)
        while True:
            if cancelled is not None and cancelled():
                raise Cancelled
            if not selector.select(timeout=0.2):
                if process.poll() is not None and not selector.select(timeout=0):
                    return  # ended, but a grandchild keeps the pipe open
                continue
            data = os.read(handle, 1 << 16)
            if not data:
                return
            *whole, rest = (rest + data).split(b"\n")
            yield from whole


def _exit_code(process: subprocess.Popen[Any]) -> int | None:
    """How it ended; None where it said its last word and then did not leave."""
    try:
        return process.wait(timeout=LEAVE)
    except subprocess.TimeoutExpired:
        return None


def _parse(line: bytes, verb: str) -> Progress | Answer | None:
    if not line.strip():
        return None
    try:
        said = VERB_LINE.validate_json(line)
    except (ValidationError, json.JSONDecodeError):
        log.warning("%s said what is not of the protocol: %r", verb, line[:200])
        return None
    return said if isinstance(said, Progress | Answer) else None


def _end(process: subprocess.Popen[Any]) -> None:
    """Make sure that it is gone: asked, then killed."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None and not stream.closed:
            try:
                stream.close()
            except BrokenPipeError:  # what was not yet sent to a dead process
                log.debug("standard input of the engine was closed by its end")


def last_words(log_file: IO[bytes]) -> str:
    """The end of an engine's log, at most `TAIL` bytes of it.

    Left out is the list of every extension module, with which Python ends a report of a crash: it hides the crash.
    """
    size = log_file.seek(0, os.SEEK_END)
    log_file.seek(max(0, size - 4 * TAIL))
    lines = log_file.read().decode("utf-8", errors="replace").strip().splitlines()
    return "\n".join(line for line in lines if not line.startswith("Extension modules: "))[-TAIL:]
