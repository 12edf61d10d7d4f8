"""`zeroboard config FILE`: judges a DeepSpeed JSON that a user brings, and prints it normalised."""

from __future__ import annotations

import argparse
import json

from zeroboard.cli.face import Face
from zeroboard.messages import Language, say
from zeroboard.services import configs, words


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    parser.add_argument("file", metavar="FILE", help=say("cli.config.file", language))


def run(asked: argparse.Namespace, face: Face) -> int:
    judged = configs.judge_config(face.paths, asked.file)
    problems = [words.problem(problem, face.language) for problem in judged.problems]
    if face.json:
        untaken = [words.problem(problem, face.language) for problem in judged.untaken]
        face.print_json({"problems": problems, "config": judged.config, "fields": judged.fields, "untaken": untaken})
        return 0 if judged.ok else 1
    for one in problems:
        face.problem(one)
    if judged.config is not None:
        face.print(json.dumps(judged.config, indent=2, ensure_ascii=False))
        for problem in judged.untaken:
            face.problem(words.problem(problem, face.language))
    return 0 if judged.ok else 1
