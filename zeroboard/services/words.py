"""Values in the words of a language: the JSON that the command line prints and the page shows.

The shapes are the frozen surface of the command line: keys are added here, never renamed.
"""

from __future__ import annotations

from typing import Any

from zeroboard.contract.exports import ExportReport, ExportState
from zeroboard.contract.plan import Decision, Plan, TokenFacts, plan_json
from zeroboard.contract.problems import Problem
from zeroboard.contract.reports import DataProblem, DataReport, DoctorReport, Proof, VerifyReport
from zeroboard.errors import Refused, ZeroBoardError
from zeroboard.messages import Language, has, say
from zeroboard.planning.render import Rendered


def problem(value: Problem, language: Language = "en") -> dict[str, Any]:
    """A problem: what, how bad, where, and what to do (None where there is nothing to say)."""
    params = {"field": value.field, **value.params}
    remedy = say(value.remedy_key, language, **params) if has(value.remedy_key, language) else None
    return {
        "code": value.code,
        "severity": value.severity,
        "field": value.field,
        "message": say(value.message_key, language, **params),
        "remedy": remedy,
        "params": dict(value.params),
        "set": value.set,
    }


def error(value: ZeroBoardError, language: Language = "en") -> list[dict[str, Any]]:
    """An exception as a list of problems, so that a face shows both in one way."""
    if isinstance(value, Refused):
        return [problem(p, language) for p in value.problems]
    remedy_key = f"{value.says}.remedy"
    return [
        {
            "code": value.says.removeprefix("error."),
            "severity": "error",
            "field": None,
            "message": say(value.says, language, **value.params),
            "remedy": say(remedy_key, language, **value.params) if has(remedy_key, language) else None,
            "params": {key: str(param) for key, param in value.params.items()},
            "set": None,
        }
    ]


def plan(value: Plan, language: Language = "en") -> dict[str, Any]:
    """Everything that Start would do, with reasons and problems as sentences."""
    found = plan_json(value)
    found["decisions"] = [decision(d, language) for d in value.decisions]
    found["problems"] = [problem(p, language) for p in value.problems]
    return found


def rendered(value: Rendered, language: Language = "en") -> dict[str, Any]:
    """A plan for another launcher."""
    steps = [{"what": say(step.says, language, **step.params), "text": step.text} for step in value.steps]
    return {"launcher": value.launcher, "steps": steps}


def data(value: DataReport, language: Language = "en") -> dict[str, Any]:
    """A data file, judged; `tokens` is null where no model was asked, or where something stands in the way."""
    problems = []
    for p in value.problems:
        said = {"code": p.code, "severity": p.severity, "count": p.count, "rows": list(p.rows)}
        problems.append({**said, "message": of_data(p, language), "excerpt": p.excerpt, "file": p.file})
    return {
        "format": value.format,
        "encoding": value.encoding,
        "rows": {"total": value.total, "usable": value.usable, "refused": value.refused, "changed": value.changed},
        "problems": problems,
        "files": [{**file.model_dump(mode="json"), "refused": file.refused} for file in value.files],
        "columns": list(value.columns),
        "evaluation": None if value.evaluation is None else _measured(value.evaluation, language),
        "tokens": None if value.tokens is None else tokens(value.tokens),
        "suggestion": None if value.suggestion is None else decision(value.suggestion, language),
    }


def setting(value: object) -> str:
    """The value of a field of the spec in a line: `–` for nothing, `b.csv × 0.5` for a further file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(map(setting, value)) or "–"
    if isinstance(value, dict) and "weight" in value:
        return " ".join(part for part in (f"{value['path']} × {value['weight']:g}", _columns(value["columns"])) if part)
    if isinstance(value, dict):
        return _columns(value).strip("()") or "–"
    return "–" if value is None or value == "" else str(value)


def _columns(value: dict[str, str]) -> str:
    pairs = ", ".join(f"{ours} = {theirs}" for ours, theirs in value.items())
    return f"({pairs})" if pairs else ""


def of_data(value: DataProblem, language: Language = "en") -> str:
    """What is wrong with data; where it is about one of several files, with its name in front."""
    key, rows = value.message_key, ", ".join(map(str, value.rows))
    words = say(key, language, **{"count": value.count, "rows": rows, **value.params})
    return words if value.file is None else say("ui.data.of-file", language, file=value.file, words=words)


def _measured(value: DataReport, language: Language) -> dict[str, Any]:
    """The evaluation file, judged; `overlap`: usable rows that are trained on as well."""
    whole = data(value, language)
    names = ("format", "encoding", "rows", "problems", "files", "columns")
    return {"path": value.path, **{name: whole[name] for name in names}, "overlap": value.overlap}


def tokens(value: TokenFacts) -> dict[str, Any]:
    """What tokenising gave."""
    names = "rows evaluation packed tokens learned longest truncated without_trainable end_token_lost template"
    return {
        **{name: getattr(value, name) for name in names.split()},
        "parts": [part.model_dump(mode="json") for part in value.parts],
        "held": None if value.held is None else value.held.model_dump(mode="json"),
        "histogram": [{"from": b.start, "to": b.end, "rows": b.rows} for b in value.histogram],
    }


def decision(value: Decision, language: Language = "en") -> dict[str, Any]:
    """An automatic choice with its reason."""
    return {"field": value.field, "value": value.value, "reason": say(value.says, language, **value.params)}


def report(value: VerifyReport, language: Language = "en") -> dict[str, Any]:
    """A verification; each check's `detail` is its sentence."""
    return {
        "path": value.path,
        "kind": value.kind,
        "verdict": value.verdict,
        "checks": [
            {"name": c.name, "verdict": c.verdict, "detail": say(c.says, language, **c.params)} for c in value.checks
        ],
        "facts": dict(value.facts),
    }


def export(state: ExportState, value: ExportReport, language: Language = "en") -> dict[str, Any]:
    """What an export delivered, with its checks."""
    checked = report(value.verification, language)
    return {
        "id": state.id,
        "state": state.state,
        "path": value.path,
        "kind": value.kind,
        "dtype": value.dtype,
        "bytes": value.bytes,
        "files": [file.model_dump(mode="json") for file in value.files],
        "verdict": checked["verdict"],
        "checks": checked["checks"],
        "facts": checked["facts"],
        "stops": list(value.stops),
        "gguf": value.gguf,
        "pushed": value.pushed,
        "seconds": value.seconds,
        "notes": [problem(note, language) for note in value.notes],
        "problems": [problem(one, language) for one in state.problems],
    }


def proof(value: Proof, language: Language = "en") -> dict[str, Any]:
    """The measured proof against the promise."""
    return {
        "ranks": [rank.model_dump(mode="json") for rank in value.ranks],
        "expected": value.expected.model_dump(mode="json") if value.expected is not None else None,
        "verdict": value.verdict,
        "reason": say(value.says, language, **value.params),
    }


def doctor(value: DoctorReport, language: Language = "en") -> dict[str, Any]:
    """What this machine has."""
    host = value.host.model_dump(mode="json", exclude={"gpus", "packages"})
    if value.host.nvml is not None:
        host["nvml"] = say(value.host.nvml, language)
    return {
        "verdict": value.verdict,
        "checks": [
            {
                "name": c.name,
                "verdict": c.verdict,
                "detail": say(c.says, language, **c.params),
                "remedy": say(c.remedy_key, language, **c.params)
                if c.verdict in ("warn", "fail") and has(c.remedy_key, language)
                else None,
            }
            for c in value.checks
        ],
        "gpus": [gpu.model_dump(mode="json") for gpu in value.host.gpus],
        "host": host,
        "packages": dict(value.host.packages),
    }
