"""`zeroboard train SPEC [--set …] [--detach]`: start a run and follow it to its end."""

from __future__ import annotations

import argparse

from zeroboard.cli.face import Face
from zeroboard.cli.fetch import come
from zeroboard.cli.follow import watch
from zeroboard.cli.plan import add_spec, write
from zeroboard.errors import Busy
from zeroboard.messages import Language, say
from zeroboard.services import prepare, runs, words


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    add_spec(parser, language)
    parser.add_argument("--detach", action="store_true", help=say("cli.train.detach", language))


def run(asked: argparse.Namespace, face: Face) -> int:
    runs.adopt_orphans(face.paths)
    spec = prepare.load_spec(asked.spec, asked.sets)
    come(face, spec.model.path, "model", code=spec.model.trust_remote_code)
    for path in (spec.data.path, *spec.data.mix.paths):
        come(face, path, "dataset")
    plan = write(face, spec)
    run_id = plan.run_id
    assert run_id is not None
    for problem in words.plan(plan, face.language)["problems"]:
        face.problem(problem)
    try:
        state = runs.start(face.paths, run_id)
    except Busy:
        runs.drop(face.paths, run_id)  # made for this start alone
        raise
    if asked.detach:
        if face.json:
            face.print_json({"id": run_id, "state": state.state, "folder": plan.folder})
        else:
            face.print(run_id)
        return 0
    face.note(face.say("cli.train.started", run=run_id, folder=plan.folder))
    return watch(face, run_id)
