"""`zeroboard plan SPEC [--set key=value …] [--write] [--render LAUNCHER]`: everything that Start would do."""

from __future__ import annotations

import argparse
import shlex

from zeroboard.cli.face import Face, size
from zeroboard.contract.plan import Plan
from zeroboard.contract.problems import Problem
from zeroboard.contract.requests import Progress
from zeroboard.contract.spec import RunSpec
from zeroboard.messages import Language, say
from zeroboard.planning.render import LAUNCHERS
from zeroboard.services import alternatives, configs, prepare, words


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    add_spec(parser, language)
    parser.add_argument("--config", metavar="FILE", help=say("cli.option.config", language))
    parser.add_argument("--write", action="store_true", help=say("cli.plan.write", language))
    parser.add_argument("--render", choices=LAUNCHERS, help=say("cli.plan.render", language))


def add_spec(parser: argparse.ArgumentParser, language: Language) -> None:
    """The arguments that name a spec."""
    parser.add_argument("spec", metavar="SPEC", help=say("cli.option.spec", language))
    parser.add_argument(
        "--set", dest="sets", action="append", default=[], metavar="KEY=VALUE", help=say("cli.option.set", language)
    )


def run(asked: argparse.Namespace, face: Face) -> int:
    spec = prepare.load_spec(asked.spec, asked.sets)
    told: tuple[Problem, ...] = ()
    if asked.config is not None:
        spec, told = configs.spec_with(face.paths, spec, asked.config, asked.sets)
    plan = write(face, spec) if asked.write else prepare.plan(face.paths, spec)
    plan = plan.model_copy(update={"problems": (*plan.problems, *told)})
    other = alternatives.render(face.paths, plan, spec, asked.render) if asked.render and plan.ok else None
    if face.json:
        rendered = {"render": words.rendered(other, face.language)} if other is not None else {}
        face.print_json({**words.plan(plan, face.language), **rendered})
    elif other is not None:
        face.print(alternatives.text(other, face.language).rstrip())
        if plan.run_id is None:
            face.note(face.say("cli.plan.render.unwritten"))
    else:
        _print(plan, face)
    return 0 if plan.ok else 1


def write(face: Face, spec: RunSpec) -> Plan:
    """The folder of a run, written; where the data has to be tokenised for it, with a bar."""

    def tokenising(at: Progress) -> None:
        face.progress(face.say("cli.data.tokenising", path=spec.data.path), at.done)

    plan = prepare.prepare(face.paths, spec, on_progress=tokenising)
    face.clear()
    return plan


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
