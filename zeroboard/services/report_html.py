"""A run as one HTML file that can be handed to a colleague: nothing in it is loaded from anywhere, nothing runs.

The page is `assets/report.html`, whose values are escaped. Covered: what was asked and decided, curves, proof,
findings, every check with its meaning, the answers before and after, and the files with their hashes (which reads the
result once). Not covered: logs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from zeroboard import __version__
from zeroboard.contract.reports import VerifyReport
from zeroboard.contract.spec import fields
from zeroboard.files import sha256_file
from zeroboard.messages import Language, has, say
from zeroboard.paths import ASSETS, Paths, RunPaths
from zeroboard.runs.series import Point
from zeroboard.runs.snapshot import Snapshot
from zeroboard.services import diagnose, runs, show, words

TEMPLATE = "report.html"

WIDTH, HEIGHT, EDGE = 300.0, 120.0, 6.0
"""Of a chart, in its own units, and what stays free above and below its line."""

PROOF = ("parameter_bytes", "gradient_bytes", "optimizer_bytes", "offloaded_bytes")

ENVIRONMENT = Environment(loader=FileSystemLoader(ASSETS), autoescape=True, undefined=StrictUndefined)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A line over the steps."""

    title: str
    words: str
    """Its first, last, least and greatest value."""
    lines: tuple[str, ...]
    """Points of polylines; a gap in the values parts them."""


def make(paths: Paths, run_id: str, language: Language = "en") -> str:
    """The page. Raises `NotFound`, `BrokenFile`."""
    snapshot = runs.reader(paths, run_id).read()
    run = paths.run(snapshot.state.id)
    told = show.describe(paths, snapshot, language=language)
    said = partial(_say, language)
    return ENVIRONMENT.get_template(TEMPLATE).render(
        language=language,
        say=said,
        name=snapshot.state.name or run.id,
        version=__version__,
        made=time.strftime("%Y-%m-%d %H:%M"),
        run=told,
        sum=_sum(told, language),
        curves=_curves(snapshot, language),
        proof_head=[say(f"cli.show.proof.{name}", language) for name in ("rank", "device", *PROOF)],
        proof=_proof(told["proof"]) if told["proof"] else (),
        checks=_checks(snapshot.report, language) if snapshot.report else (),
        answers=_answers(snapshot.report),
        settings=_settings(run, language),
        files=tuple(_files(run)),
    )


def _say(language: Language, key: str, **params: Any) -> str:
    return say(key, language, **params)


def _sum(told: dict[str, Any], language: Language) -> list[tuple[str, str]]:
    """What was planned and what became of it, in figures."""
    plan, progress = told["plan"] or {}, told["progress"]
    batch, model = plan.get("batch"), plan.get("model") or {}
    last = told["metrics"][-1] if told["metrics"] else {}
    sums = {
        "model": model.get("name"),
        "parameters": f"{model['parameters']:,}" if model.get("parameters") else None,
        "batch": "{micro} × {accumulation} × {gpus} = {global}".format(**batch) if batch else None,
        "steps": f"{progress['step']} / {progress['steps'] or '–'}",
        "seconds": f"{progress['elapsed_s']:,.0f}" if progress["elapsed_s"] is not None else None,
        "loss": f"{last['loss']:.4f}" if last.get("loss") is not None else None,
    }
    return [(say(f"report.sum.{name}", language), value) for name, value in sums.items() if value is not None]


def _curves(snapshot: Snapshot, language: Language) -> list[Curve]:
    series = snapshot.series
    known = {
        "loss": series.loss, "evaluation": series.evaluation, "rate": series.learning_rate, "norm": series.grad_norm,
        "throughput": series.tokens_per_s,
    }  # fmt: skip
    return [
        Curve(title=say(f"report.curve.{name}", language), words=_words(points, language), lines=_lines(points))
        for name, points in known.items()
        if any(value is not None for _, value in points)
    ]


def _words(points: Sequence[Point], language: Language) -> str:
    values = [value for _, value in points if value is not None]
    shown = {"first": values[0], "last": values[-1], "low": min(values), "high": max(values)}
    return say("report.curve.words", language, **{name: f"{value:.4g}" for name, value in shown.items()})


def _lines(points: Sequence[Point]) -> tuple[str, ...]:
    """The points in the chart's units; a value that is missing ends a line."""
    values = [value for _, value in points if value is not None]
    low, high = min(values), max(values)
    first, last = points[0][0], points[-1][0]
    lines: list[list[str]] = [[]]
    for step, value in points:
        if value is None:
            lines.append([])
            continue
        x = WIDTH * (step - first) / max(last - first, 1)
        y = HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * ((value - low) / (high - low) if high > low else 0.5)
        lines[-1].append(f"{x:.1f},{y:.1f}")
    return tuple(" ".join(line) for line in lines if line)


def _proof(proof: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for rank in proof["ranks"]:
        figures = (f"{rank[name]:,}" if rank[name] is not None else "–" for name in PROOF)
        yield str(rank["rank"]), rank["device"], *figures


def _checks(report: VerifyReport, language: Language) -> list[dict[str, Any]]:
    found = []
    for check in report.checks:
        key = f"{check.says}.remedy"
        key = key if has(key, language) else f"check.{check.name}.remedy"
        wanted = check.verdict in ("warn", "fail") and has(key, language)
        found.append(
            {
                "name": check.name,
                "verdict": check.verdict,
                "detail": say(check.says, language, **check.params),
                "remedy": say(key, language, **check.params) if wanted else None,
            }
        )
    return found


def _answers(report: VerifyReport | None) -> list[dict[str, Any]]:
    asked = report.facts.get("prompts") if report is not None else None
    found = [one for one in asked if isinstance(one, dict)] if isinstance(asked, list) else []
    return [{name: one.get(name) for name in ("prompt", "before", "after")} for one in found]


def _settings(run: RunPaths, language: Language) -> list[tuple[str, str, str]]:
    """Every field of the spec by its label and key."""
    spec = diagnose.asked(run)
    if spec is None:
        return []
    known = spec.model_dump(mode="json")
    rows = []
    for field in fields():
        value: Any = known
        for part in field.key.split("."):
            value = value[part]
        rows.append((say(f"field.{field.key}.label", language), field.key, words.setting(value)))
    return rows


def _files(run: RunPaths) -> Iterator[dict[str, Any]]:
    """What came out, with the hash of each file."""
    for path in sorted(run.model.rglob("*")) if run.model.is_dir() else ():
        if path.is_file() and not path.is_symlink():
            name = str(path.relative_to(run.model))
            yield {"name": name, "bytes": path.stat().st_size, "sha256": sha256_file(path)}
