"""`zeroboard doctor`: what this machine has, and what it would need for more."""

from __future__ import annotations

import argparse

from zeroboard.cli.face import Face, number, size
from zeroboard.messages import Language
from zeroboard.services import words
from zeroboard.services.doctor import doctor


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    """No arguments of its own."""


def run(asked: argparse.Namespace, face: Face) -> int:
    report = doctor(face.paths)
    said = words.doctor(report, face.language)
    if face.json:
        face.print_json(said)
        return 1 if report.verdict == "fail" else 0
    face.table((c["name"], c["verdict"], c["detail"]) for c in said["checks"])
    for check in said["checks"]:
        if check["remedy"]:
            face.print(f"→ {check['name']}: {check['remedy']}")
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
