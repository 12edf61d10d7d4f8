"""`zeroboard doctor`: what this machine has, and what it would need for more."""

from __future__ import annotations

import argparse

from zeroboard.cli.face import Face, number, size
from zeroboard.messages import Language, say
from zeroboard.planning.dependencies import requirements
from zeroboard.services import words
from zeroboard.services.doctor import doctor
from zeroboard.services.toolchain import would_change


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    parser.add_argument("--changes", action="store_true", help=say("cli.doctor.changes", language))


def run(asked: argparse.Namespace, face: Face) -> int:
    report = doctor(face.paths)
    said = words.doctor(report, face.language)
    changes = [change.model_dump() for change in would_change(requirements())] if asked.changes else None
    if face.json:
        face.print_json(said if changes is None else {**said, "changes": changes})
        return 1 if report.verdict == "fail" else 0
    face.table((c["name"], c["verdict"], c["detail"]) for c in said["checks"])
    for check in said["checks"]:
        if check["remedy"]:
            face.print(f"→ {check['name']}: {check['remedy']}")
    if changes is not None:
        face.print()
        face.print(face.colour(face.say("cli.doctor.changes.title"), "bold"))
        face.table((c["package"], c["before"] or "–", c["after"]) for c in changes)
        if not changes:
            face.print(face.say("cli.doctor.changes.none"))
    if report.host.gpus:
        face.print()
        face.table(
            (
                (
                    str(gpu.index),
                    gpu.name or "–",
                    f"{size(gpu.memory_used)} / {size(gpu.memory_total)}",
                    number(gpu.utilization, ".0f"),
                    number(gpu.temperature, ".0f"),
                    number(gpu.power, ".0f"),
                    gpu.state,
                )
                for gpu in report.host.gpus
            ),
            head=[
                face.say(f"cli.doctor.gpu.{n}") for n in ("index", "name", "memory", "use", "heat", "power", "state")
            ],
        )
    return 1 if report.verdict == "fail" else 0
