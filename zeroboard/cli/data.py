"""`zeroboard data FILE`: judges a data file row by row; with `--model` also as that model will see it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from zeroboard.cli.face import Face
from zeroboard.cli.fetch import come
from zeroboard.contract.mix import DataPart, Mix
from zeroboard.contract.requests import Progress
from zeroboard.contract.spec import DataSpec, MixedFile
from zeroboard.errors import Refused
from zeroboard.messages import Language, say
from zeroboard.planning.data_rules import named_twice
from zeroboard.services import words
from zeroboard.services.judging import data_file, judge_data, located, mix_at
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
        "--column", metavar="OURS=THEIRS", type=_column, action=_Column, default=(),
        help=say("cli.data.column", language),
    )  # fmt: skip
    parser.add_argument("--weight", metavar="W", type=_weight, default=1.0, help=say("cli.data.weight", language))
    parser.add_argument(
        "--more", metavar=("FILE", "W"), nargs=2, action=_More, default=(), help=say("cli.data.more", language)
    )
    parser.add_argument("--eval", metavar="FILE", default="", help=say("cli.data.eval", language))


class _Column(argparse.Action):
    """What a column means, said once of each."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        before = getattr(namespace, self.dest)
        if values[0] in dict(before):
            raise argparse.ArgumentError(self, "=".join(values))
        setattr(namespace, self.dest, (*before, values))


class _More(argparse.Action):
    """A further file and its weight."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        path, weight = values
        try:
            more = (*getattr(namespace, self.dest), MixedFile(path=path, weight=_weight(weight)))
            DataSpec(path="-", more=more)
        except ValueError as error:
            raise argparse.ArgumentError(self, f"{path} {weight}") from error
        setattr(namespace, self.dest, more)


def _weight(text: str) -> float:
    """How often rows are seen; raises `ValueError`."""
    return DataSpec(path="-", weight=float(text)).weight


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
    wish = Mix(
        weight=asked.weight,
        more=tuple(DataPart(path=one.path, weight=one.weight) for one in asked.more),
        held_out=DataPart(path=asked.eval, columns=columns) if asked.eval else None,
    )
    for path in (asked.file, *wish.paths):
        come(face, path, "dataset")
    mix, file = mix_at(face.paths, wish), located(face.paths, asked.file)
    names = (asked.file, *(one.path for one in asked.more))
    twice = named_twice([str(data_file(file)), *(one.path for one in mix.more)], names)
    if twice:
        raise Refused(twice)
    report = judge_data(file, told, columns=columns, mix=mix)
    if asked.model is not None:
        report = with_tokens(
            face.paths,
            report,
            model=asked.model,
            max_length=asked.max_length,
            columns=columns,
            mix=mix,
            on_progress=tokenising,
        )
    face.clear()
    said = words.data(report, face.language)
    if face.json:
        face.print_json(said)
    else:
        _show(face, said, path=report.path, mixed=tuple(zip(names, mix.weights, strict=True)))
    asked_in_vain = asked.model is not None and (report.tokens is None or not report.tokens.rows)
    if report.evaluation is not None and report.evaluation.usable <= report.evaluation.overlap:
        return 1
    return 1 if not report.usable or (asked_in_vain and report.trainable) else 0


def _show(face: Face, said: dict[str, Any], path: str, mixed: Sequence[tuple[str, float]]) -> None:
    """For a person: the file, and the evaluation file; what an epoch sees, of each of `mixed` (path and weight)."""
    _show_file(face, said, path)
    if said["evaluation"] is not None:
        face.print(face.say("cli.data.evaluation"))
        _show_file(face, said["evaluation"], said["evaluation"]["path"])
    if said["tokens"] is not None:
        face.print(face.say("cli.data.tokens", **said["tokens"]))
        for (name, weight), part in zip(mixed, said["tokens"]["parts"], strict=False):
            face.print(face.say("cli.data.part", name=name, weight=f"{weight:g}", **part))
    if said["suggestion"] is not None:
        face.print(face.say("cli.data.suggestion", **said["suggestion"]))


def _show_file(face: Face, said: dict[str, Any], path: str) -> None:
    """Counts, then each kind of problem with its rows and the beginning of the first of them."""
    rows, problems, files = said["rows"], said["problems"], said["files"]
    assert isinstance(rows, dict) and isinstance(problems, list) and isinstance(files, list)
    face.print(face.say("cli.data.head", path=path, format=said["format"], encoding=said["encoding"], **rows))
    face.table(
        (f["name"], f["format"], f"{f['first']}–{f['first'] + f['rows'] - 1}" if f["rows"] else "–") for f in files
    )
    for problem in problems:
        face.table([(problem["severity"], problem["code"], str(problem["count"]), problem["message"])])
        if problem["excerpt"]:
            face.print("    " + face.colour(problem["excerpt"], "dim"))
