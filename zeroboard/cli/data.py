"""`zeroboard data FILE`: judges a data file row by row; with `--model` also as that model will see it."""

from __future__ import annotations

import argparse
import time

from zeroboard.cli.face import Face
from zeroboard.cli.fetch import come
from zeroboard.contract.requests import Progress
from zeroboard.contract.spec import DataSpec
from zeroboard.messages import Language, say
from zeroboard.services import words
from zeroboard.services.judging import judge_data, located
from zeroboard.services.tokens import with_tokens

LENGTH = DataSpec.model_fields["max_length"]
"""The spec's own field: its default and its bounds hold here too."""
PATIENCE = 2.0
"""Seconds without a word; what takes longer shows its progress."""


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    parser.add_argument("file", metavar="FILE", help=say("cli.data.file", language))
    parser.add_argument("--model", metavar="M", help=say("cli.data.model", language))
    default = LENGTH.get_default()
    said = say("cli.data.max-length", language, default=default)
    parser.add_argument("--max-length", metavar="N", type=_length, default=default, help=said)
    parser.add_argument(
        "--column", metavar="OURS=THEIRS", type=_column, action="append", default=[],
        help=say("cli.data.column", language),
    )  # fmt: skip


def _length(text: str) -> int:
    """A maximum length; raises `ValueError`."""
    return DataSpec(path="-", max_length=int(text)).max_length


def _column(text: str) -> tuple[str, str]:
    """What a column means; raises `ValueError`."""
    ours, sign, theirs = text.partition("=")
    if not sign or not theirs:
        raise ValueError(text)
    DataSpec.model_validate({"path": "-", "columns": {ours: theirs}})
    return ours, theirs


def run(asked: argparse.Namespace, face: Face) -> int:
    started = time.monotonic()

    def told(share: float) -> None:
        if time.monotonic() - started > PATIENCE:
            face.progress(face.say("cli.data.reading", path=asked.file), share)

    def tokenising(at: Progress) -> None:
        if time.monotonic() - started > PATIENCE:
            face.progress(face.say("cli.data.tokenising", path=asked.file), at.done)

    columns = dict(asked.column)
    come(face, asked.file, "dataset")
    report = judge_data(located(face.paths, asked.file), told, columns=columns)
    if asked.model is not None:
        report = with_tokens(
            face.paths, report, model=asked.model, max_length=asked.max_length, columns=columns, on_progress=tokenising
        )
    face.clear()
    said = words.data(report, face.language)
    if face.json:
        face.print_json(said)
    else:
        _show(face, said, path=report.path)
    asked_in_vain = asked.model is not None and (report.tokens is None or not report.tokens.rows)
    return 1 if not report.usable or (asked_in_vain and report.trainable) else 0


def _show(face: Face, said: dict[str, object], path: str) -> None:
    """For a person: counts, then each kind of problem with its rows and the beginning of the first of them."""
    rows, problems, files = said["rows"], said["problems"], said["files"]
    assert isinstance(rows, dict) and isinstance(problems, list) and isinstance(files, list)
    face.print(face.say("cli.data.head", path=path, format=said["format"], encoding=said["encoding"], **rows))
    face.table((f["name"], f["format"], f"{f['first']}–{f['first'] + f['rows'] - 1}") for f in files)
    for problem in problems:
        face.table([(problem["severity"], problem["code"], str(problem["count"]), problem["message"])])
        if problem["excerpt"]:
            face.print("    " + face.colour(problem["excerpt"], "dim"))
    if said["tokens"] is not None:
        face.print(face.say("cli.data.tokens", **said["tokens"]))  # type: ignore[arg-type]
    if said["suggestion"] is not None:
        face.print(face.say("cli.data.suggestion", **said["suggestion"]))  # type: ignore[arg-type]
