"""`zeroboard plan SPEC [--set key=value …] [--write]`: everything that Start would do."""

from __future__ import annotations

import argparse
import shlex

from zeroboard.cli.face import Face, size
from zeroboard.contract.plan import Plan
from zeroboard.messages import Language, say
from zeroboard.services import prepare, words


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    add_spec(parser, language)
    parser.add_argument("--write", action="store_true", help=say("cli.plan.write", language))


def add_spec(parser: argparse.ArgumentParser, language: Language) -> None:
    """The arguments that name a spec."""
    parser.add_argument("spec", metavar="SPEC", help=say("cli.option.spec", language))
    parser.add_argument(
        "--set", dest="sets", action="append", default=[], metavar="KEY=VALUE", help=say("cli.option.set", language)
    )


def run(asked: argparse.Namespace, face: Face) -> int:
    spec = prepare.load_spec(asked.spec, asked.sets)
    plan = prepare.prepare(face.paths, spec) if asked.write else prepare.plan(face.paths, spec)
    if face.json:
        face.print_json(words.plan(plan, face.language))
    else:
        _print(plan, face)
    return 0 if plan.ok else 1


def _print(plan: Plan, face: Face) -> None:
    said = words.plan(plan, face.language)
    for problem in said["problems"]:
        face.problem(problem)
    if plan.argv:
        _title(face, "cli.plan.command")
        face.print(shlex.join(plan.argv))
        _title(face, "cli.plan.env")
        face.table((key, value) for key, value in sorted(plan.env.items()))
        if plan.scrubbed:
            face.print(face.say("cli.plan.scrubbed", names=", ".join(plan.scrubbed)))
    for name, content in plan.files.items():
        _title(face, "cli.plan.file", name=name)
        face.print(content.rstrip())
    _title(face, "cli.plan.batch")
    batch = plan.batch
    face.print(
        face.say(
            "cli.plan.sum",
            micro=batch.micro,
            accumulation=batch.accumulation,
            ranks=batch.gpus,
            total=batch.total,
        )
    )
    steps = plan.resolved.steps if plan.resolved is not None else None
    face.print(face.say("cli.plan.steps-unknown") if steps is None else face.say("cli.plan.steps", steps=steps))
    if plan.promise is not None:
        promise = plan.promise
        face.print(
            face.say(
                "cli.plan.promise",
                parameters=size(promise.parameter_bytes),
                gradients=size(promise.gradient_bytes),
                optimizer=size(promise.optimizer_bytes),
                offloaded=size(promise.offloaded_bytes),
            )
        )
    if said["decisions"]:
        _title(face, "cli.plan.decisions")
        face.table((d["field"], str(d["value"]), d["reason"]) for d in said["decisions"])
    if plan.run_id is not None:
        face.print(face.say("cli.plan.written", run=plan.run_id, folder=plan.folder))


def _title(face: Face, key: str, **params: str) -> None:
    face.print()
    face.print(face.colour(face.say(key, **params), "bold"))
