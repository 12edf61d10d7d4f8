"""The rules about data, of those that are checked before anything starts (see `rules`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from zeroboard.contract.problems import Problem, Scalar, problem
from zeroboard.contract.reports import DataReport
from zeroboard.contract.spec import DataSpec
from zeroboard.planning.facts import Facts
from zeroboard.planning.tokens import nothing_learned


def read_from(data: DataSpec) -> Iterator[tuple[str, str]]:
    """Every place that data is read from, with its field."""
    yield "data.path", data.path
    yield from (("data.more", one.path) for one in data.more)
    if data.eval_path.strip():
        yield "data.eval_path", data.eval_path.strip()


def named_twice(parts: Sequence[str], names: Sequence[str]) -> list[Problem]:
    """The files of `parts` that are there once already, also by a link; `names` are what the user calls them."""
    first: dict[Path, str] = {}
    found = []
    for path, name in zip(parts, names, strict=True):
        place = Path(path).resolve()
        if place in first:
            params: dict[str, Scalar] = {"path": path, "first": first[place], "second": name}
            found.append(problem("value-range", "data.more", "twice", params))
        first.setdefault(place, name)
    return found


def data_told_apart(facts: Facts) -> list[Problem]:
    """A file that is named twice: its weights would have to be added, and what is measured must not be trained on."""
    data = facts.data
    if data is None:
        return []
    parts = [data.path, *(part.path for part in data.mix.more)]
    names = [path for field, path in read_from(facts.spec.data) if field != "data.eval_path"]
    found = named_twice(parts, names)
    held_out = data.mix.held_out
    if held_out is not None and Path(held_out.path).resolve() in {Path(path).resolve() for path in parts}:
        params = {"path": facts.spec.data.eval_path.strip()}
        found.append(problem("value-range", "data.eval_path", "measured", params))
    return found


def measured_good(facts: Facts) -> list[Problem]:
    """Rows of the evaluation file that cannot be used, or that are trained on as well."""
    data = facts.data
    held = data.evaluation if data is not None else None
    if held is None:
        return []
    code, field, name = "data-refused", "data.eval_path", Path(held.path).name
    if not held.trainable:
        reasons = _reasons(held, field)
        return [problem(code, field, "measured", {"path": name, "total": held.total}), *reasons]
    if held.overlap >= held.usable:
        return [problem(code, field, "all-trained", {"path": name})]
    found = []
    if held.overlap:
        rows = next((p.rows for p in held.problems if p.code == "evaluation-overlap"), ())
        params: dict[str, Scalar] = {"count": held.overlap, "rows": _list(rows)}
        found.append(problem(code, field, "overlap", params, severity="warning"))
    if held.refused:
        rows = tuple(row for p in held.problems if p.severity == "error" for row in p.rows[:5])
        params = {"refused": held.refused, "total": held.total, "rows": _list(rows)}
        found.append(problem(code, field, "measured-some", params, severity="warning"))
    return found


def _reasons(data: DataReport, field: str) -> list[Problem]:
    """Why nothing of it can be used, in the words of the data's own report; the file first where there are several."""
    errors = [problem for problem in data.problems if problem.severity == "error"]
    errors = errors or [problem for problem in data.problems if problem.code == "unknown-format"]
    further = {file.name for file in data.files if file.part}
    found = []
    for one in errors:
        place = "data.more" if one.file in further else field
        if one.file is not None:
            found.append(problem("data-refused", place, "file", {"file": one.file}))
        found.append(Problem(code="data-refused", field=place, says=one.message_key, params=one.params))
    return found


def _list(rows: Sequence[int]) -> str:
    return ", ".join(map(str, rows)) or "-"


def data_good(facts: Facts) -> list[Problem]:
    """Rows that cannot be used, or of which nothing is learned within the maximum length."""
    data, tokens, code, field = facts.data, facts.tokens, "data-refused", "data.path"
    if data is None:
        return []
    errors = [problem for problem in data.problems if problem.severity == "error"]
    if not data.trainable:
        reasons = _reasons(data, field)
        head = [problem(code, field, params={"path": data.path, "total": data.total})]
        return reasons if reasons and data.mix.more else [*head, *reasons]
    found = []
    if data.refused:
        rows = _list([row for problem in errors for row in problem.rows[:5]])
        needed, accepted = data.share_refused, facts.spec.data.accept_refused
        params: dict[str, Scalar] = {"refused": data.refused, "total": data.total, "rows": rows}
        if needed > accepted:
            params |= {"share": f"{needed:.1%}", "accepted": f"{accepted:.1%}"}
            mend = {"data.accept_refused": needed}
            found.append(problem(code, "data.accept_refused", "many", params, mend=mend))
        else:
            found.append(problem(code, field, "some", params, severity="warning"))
    if tokens is not None:
        params = {"count": tokens.without_trainable, "length": facts.spec.data.max_length}
        nothing = nothing_learned(tokens, path=Path(data.path), max_length=facts.spec.data.max_length)
        if nothing is not None and nothing.code == "template-refused":
            found.append(nothing)
        elif nothing is not None:
            found.append(problem(code, "data.max_length", "nothing-learned", params))
        elif tokens.without_trainable:
            found.append(problem(code, "data.max_length", "left-out", params, severity="warning"))
        if tokens.rows and tokens.truncated:
            params = {
                "count": tokens.truncated,
                "lost": tokens.end_token_lost,
                "length": facts.spec.data.max_length,
                "longest": tokens.longest,
            }
            found.append(problem(code, "data.max_length", "truncated", params, severity="warning"))
    return found
