"""Sending a finished folder to the hub: the one thing here that leaves the machine, and only when it was asked for.

It runs in a process of its own (see `zeroboard.services.hub`), so that it can be ended at any moment. The token
comes as one line of standard input: it stands in no argument list, no environment, no file and no log.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from zeroboard.contract.base import Record
from zeroboard.contract.problems import Problem
from zeroboard.errors import Refused
from zeroboard.services import children

REPOSITORY = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95}")

TOKEN = "HF_TOKEN"
"""Where the command line looks for a token before it asks for one."""

REFUSED = 3
"""Exit code: the hub, or the way to it, said no; the last line of the log says why."""


class Push(Record):
    """What the process reads, one line of JSON."""

    folder: str
    repository: str
    public: bool
    token: str


def judge(repository: str, token: str | None) -> tuple[Problem, ...]:
    """Whether a push can be tried at all."""
    problems = []
    if not REPOSITORY.fullmatch(repository) or ".." in repository or "--" in repository:
        problems.append(Problem(code="push-name", params={"repository": repository[:120]}))
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        problems.append(Problem(code="push-token"))
    return tuple(problems)


def push(folder: Path, repository: str, token: str, *, public: bool, log: Path, cancelled: Callable[[], bool]) -> str:
    """Send a folder; returns the address of the repository.

    Raises `Refused` where the hub refuses or cannot be reached, and `Cancelled`.
    """
    told = log.with_name("pushed")
    told.unlink(missing_ok=True)
    words = Push(folder=str(folder), repository=repository, public=public, token=token)
    code = children.run(
        [sys.executable, "-m", "zeroboard.services", "push", str(told)],
        log=log,
        env=children.environment(HF_HUB_OFFLINE="0", HF_HUB_DISABLE_TELEMETRY="1"),
        cancelled=cancelled,
        words=words.model_dump_json().encode() + b"\n",
    )
    if code != 0:
        why = children.tail(log).splitlines()[-1:] if code == REFUSED else []
        params = {"repository": repository, "why": why[0][:400] if why else f"exit code {code}"}
        raise Refused([Problem(code="push-failed", params=params)])
    return told.read_text(encoding="utf-8").strip()
