"""`zeroboard show RUN [--html FILE]`: one run, whole; or as a page that can be handed on."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zeroboard.cli.diagnose import print_finding
from zeroboard.cli.face import Face, clock, number, size
from zeroboard.files import write_atomic
from zeroboard.messages import Language, say
from zeroboard.services import report_html, runs, show

LAST = 8
"""How many of the last steps are shown."""


def configure(parser: argparse.ArgumentParser, language: Language) -> None:
    parser.add_argument("run", metavar="RUN", help=say("cli.option.run", language))
    parser.add_argument("--html", metavar="FILE", help=say("cli.show.html", language))


def run(asked: argparse.Namespace, face: Face) -> int:
    runs.adopt_orphans(face.paths)
    run_id = runs.find(face.paths, asked.run)
    if asked.html is not None:
        write_atomic(Path(asked.html), report_html.make(face.paths, run_id, face.language))
        face.note(face.say("cli.show.html-written", path=asked.html))
        if not face.json:
            return 0
    said = show.show(face.paths, run_id, language=face.language)
    if face.json:
        face.print_json(said)
    else:
        _print(said, face)
    return 0


def _print(said: dict[str, Any], face: Face) -> None:
    progress = said["progress"]
    created = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(said["created"]))
    rows = [
        ("id", said["id"]),
        ("state", said["state"]),
        ("made", created),
        ("step", f"{progress['step']}/{'–' if progress['steps'] is None else progress['steps']}"),
        ("left", clock(progress["eta_s"])),
        ("took", clock(progress["elapsed_s"])),
        *_more(said, face),
        ("folder", said["folder"]),
        ("result", said["result"] or "–"),
    ]
    face.table((face.say(f"cli.show.{key}"), value) for key, value in rows)
    if said["problem"] is not None:
        face.problem(said["problem"])
    if said["findings"]:
        face.print()
        face.print(face.say("cli.show.findings"))
        for finding in said["findings"]:
            print_finding(finding, face)
    if said["metrics"]:
        face.print()
        face.table(
            (
                (
                    str(m["step"]),
                    number(m["loss"]),
                    number(m["learning_rate"], ".2e"),
                    number(m["grad_norm"], ".3f"),
                    number(m["tokens_per_s"], ".0f"),
                    number(m["step_time"], ".2f"),
                )
                for m in said["metrics"][-LAST:]
            ),
            head=[face.say(f"cli.show.metric.{n}") for n in ("step", "loss", "rate", "norm", "tokens", "seconds")],
        )
    _print_proof(said["proof"], face)
    if said["report"] is not None:
        face.print()
        face.print(face.say("cli.outcome.report", verdict=said["report"]["verdict"]))
        face.table((c["name"], c["verdict"], c["detail"]) for c in said["report"]["checks"])


def _more(said: dict[str, Any], face: Face) -> Iterator[tuple[str, str]]:
    """What not every run has: evaluations, costs, utilisation, peaks."""
    progress = said["progress"]
    if said["evaluations"]:
        last = said["evaluations"][-1]
        yield "evaluation", face.say("cli.show.at", loss=number(last["loss"]), step=last["step"])
    if progress["cost"] is not None:
        expected = number(progress["cost_expected"], ".2f")
        yield "cost", face.say("cli.show.costs", cost=number(progress["cost"], ".2f"), expected=expected)
    if progress["mfu"] is not None:
        yield "mfu", f"{100 * progress['mfu']:.1f} %"
    if progress["peaks"]:
        yield "peaks", ", ".join(f"{rank}: {size(peak)}" for rank, peak in progress["peaks"].items())


def _print_proof(proof: dict[str, Any] | None, face: Face) -> None:
    if proof is None:
        return
    face.print()
    face.print(face.say("cli.outcome.proof", verdict=proof["verdict"], reason=proof["reason"]))
    columns = ("parameter_bytes", "gradient_bytes", "optimizer_bytes", "offloaded_bytes", "peak_memory_bytes")
    rows = [
        (str(r["rank"]), r["device"], str(r["pid"]), f"{r['engine']} {r['stage']}", *(size(r[c]) for c in columns))
        for r in proof["ranks"]
    ]
    expected = proof["expected"]
    if expected is not None:
        rows.append((face.say("cli.show.promised"), "", "", "", *(size(expected.get(c)) for c in columns[:-1]), ""))
    face.table(rows, head=[face.say(f"cli.show.proof.{n}") for n in ("rank", "device", "pid", "engine", *columns)])
