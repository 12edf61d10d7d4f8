"""A data file as the model will see it: tokenised by the code of the training, into the cache that it trains from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from zeroboard.catalogue import bundled_model
from zeroboard.contract.mix import PLAIN, Mix
from zeroboard.contract.plan import Decision, ModelFacts, TokenFacts, read_tokens
from zeroboard.contract.problems import Problem, Scalar, Severity, errors
from zeroboard.contract.reports import DataProblem, DataReport
from zeroboard.contract.requests import Progress, TokeniseRequest
from zeroboard.contract.samples import SampleRequest, SampleView
from zeroboard.contract.spec import RunSpec
from zeroboard.errors import Refused
from zeroboard.paths import Paths
from zeroboard.planning.models import read_model
from zeroboard.planning.tokens import spec_key, suggest_length, tokens_key
from zeroboard.runs import verbs
from zeroboard.services.judging import data_file, located, mix_at
from zeroboard.services.models import prepare_model

NO_COLUMNS: Mapping[str, str] = MappingProxyType({})
"""Nothing was said about what columns mean; else our name → theirs."""

OnTokens = Callable[[Progress], None]


def with_tokens(
    paths: Paths,
    report: DataReport,
    *,
    model: str,
    max_length: int,
    evaluation: float = 0.0,
    seed: int = 0,
    columns: Mapping[str, str] = NO_COLUMNS,
    mix: Mix = PLAIN,
    trust_remote_code: bool = False,
    on_progress: OnTokens | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> DataReport:
    """The report of a data file with what its tokens are, and what is wrong with them, added. `mix`: by absolute paths.

    `tokens` stays None where nothing in the file is trainable, or where a problem of the model or of the file stands in
    the way (it is added). A bundled model is prepared first. Raises `EngineFailed`, and `Cancelled` of `runs.verbs`.
    """
    facts, problems = read_model(model, paths)
    if facts is None:
        return _add(report, _told(problems))
    if not report.trainable:
        return report
    try:
        tokens = tokenised(
            paths,
            data_file(report.path),
            facts,
            max_length=max_length,
            evaluation=evaluation,
            seed=seed,
            columns=columns,
            mix=mix,
            trust_remote_code=trust_remote_code,
            on_progress=on_progress,
            cancelled=cancelled,
        )
    except Refused as refused:
        return _add(report, _told(refused.problems))
    return merged(report, seen(tokens, facts, max_length))


def tokenised(
    paths: Paths,
    data: Path,
    model: ModelFacts,
    *,
    max_length: int,
    evaluation: float = 0.0,
    seed: int = 0,
    columns: Mapping[str, str] = NO_COLUMNS,
    mix: Mix = PLAIN,
    trust_remote_code: bool = False,
    on_progress: OnTokens | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> TokenFacts:
    """What tokenising gives, done now where it was not done before; raises `Refused`, `EngineFailed`, `Cancelled`."""
    key = tokens_key(data, model, max_length, evaluation=evaluation, seed=seed, columns=columns, mix=mix)
    target = paths.tokens / key
    there = read_tokens(target)
    if there is not None:
        return there
    if bundled_model(model.name) is not None:
        prepare_model(paths, model.name, on_progress=on_progress)
    request = TokeniseRequest(
        data_path=str(data.absolute()),
        model_path=model.path,
        max_length=max_length,
        evaluation=evaluation,
        seed=seed,
        columns=dict(columns),
        mix=mix,
        target=str(target.absolute()),
        trust_remote_code=trust_remote_code,
    )
    answer = verbs.call(
        "tokenise", request, on_progress=on_progress, log_to=paths.logs / "tokenise.log", cancelled=cancelled
    )
    if errors(answer.problems):
        raise Refused(answer.problems)
    return TokenFacts.model_validate(answer.value)


def sample(
    paths: Paths,
    data: str,
    model: str,
    *,
    row: int,
    max_length: int,
    columns: Mapping[str, str] = NO_COLUMNS,
    mix: Mix = PLAIN,
    trust_remote_code: bool = False,
) -> SampleView:
    """One row as the model will see it; `mix` as it was written.

    Raises `NotFound`, `Refused` (no such row, the template), `EngineFailed`.
    """
    facts, problems = read_model(model, paths)
    if facts is None:
        raise Refused(problems)
    if bundled_model(facts.name) is not None:
        prepare_model(paths, facts.name)
    request = SampleRequest(
        data_path=str(data_file(located(paths, data)).absolute()),
        model_path=facts.path,
        row=row,
        max_length=max_length,
        columns=dict(columns),
        mix=mix_at(paths, mix),
        trust_remote_code=trust_remote_code,
    )
    answer = verbs.call("sample", request, log_to=paths.logs / "tokenise.log")
    if errors(answer.problems):
        raise Refused(answer.problems)
    return SampleView.model_validate(answer.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the tokens of a data file are, and what there is to say about them."""

    tokens: TokenFacts
    suggestion: Decision | None
    """A maximum length."""
    problems: tuple[DataProblem, ...]


def seen(tokens: TokenFacts, model: ModelFacts, max_length: int) -> Seen:
    """The facts with what follows from them."""
    found = suggest_length(tokens, model.context_length)
    suggestion = None
    if found is not None:
        params: dict[str, Scalar] = {"longest": tokens.longest}
        suggestion = Decision(field="data.max_length", value=found[0], says=found[1], params=params)
    return Seen(tokens=tokens, suggestion=suggestion, problems=tuple(_problems(tokens, model, max_length)))


def of_spec(paths: Paths, spec: RunSpec, *, start: bool, on_progress: OnTokens | None = None) -> Seen | None:
    """What a spec's data is to its model. With `start` it is tokenised now, else None where it was not before.

    Raises `NotFound` (no such data), `Refused`, `EngineFailed`.
    """
    model, problems = read_model(spec.model.path, paths)
    if model is None:
        raise Refused(problems)
    data, wanted = data_file(located(paths, spec.data.path)), spec.data
    mix = mix_at(paths, wanted.mix)
    if start:
        tokens: TokenFacts | None = tokenised(
            paths,
            data,
            model,
            max_length=wanted.max_length,
            evaluation=wanted.share,
            seed=spec.train.seed,
            columns=wanted.chosen,
            mix=mix,
            trust_remote_code=spec.model.trust_remote_code,
            on_progress=on_progress,
        )
    else:
        tokens = read_tokens(paths.tokens / spec_key(spec, data, model, mix))
    return None if tokens is None else seen(tokens, model, wanted.max_length)


def merged(report: DataReport, found: Seen) -> DataReport:
    """The report of a data file with what its tokens are."""
    tokens = found.tokens
    counted = report.model_copy(
        update={
            "usable": report.usable - tokens.refused,
            "refused": report.refused + tokens.refused,
            "changed": report.changed + tokens.folded,
            "tokens": tokens,
            "suggestion": found.suggestion,
        }
    )
    return _add(counted, found.problems)


def _problems(tokens: TokenFacts, model: ModelFacts, max_length: int) -> Iterable[DataProblem]:
    common: dict[str, Scalar] = {"length": max_length, "longest": tokens.longest, "why": tokens.refusal}
    nothing = tokens.rows == 0
    rows: tuple[tuple[str, str, int, Severity, str | None], ...] = (
        ("template-refused", "template-refused", tokens.refused, "error", None),
        ("template-refused", "folded", tokens.folded, "warning", "data.template-refused.folded"),
        (
            "no-trainable-tokens",
            "no-trainable-tokens",
            tokens.without_trainable,
            "error" if nothing else "warning",
            None,
        ),
        ("end-token-lost", "end-token-lost", tokens.end_token_lost, "warning", None),
        ("end-token-lost", "unended", tokens.unended, "warning", "data.end-token-lost.none"),
        ("truncated", "truncated", tokens.truncated, "warning", None),
    )
    if tokens.template == "chatml":
        yield DataProblem(code="template-missing", severity="warning", count=1, params={"model": model.name})
    for code, kind, count, severity, says in rows:
        if count:
            named = tokens.named.get(kind, ())
            told = ", ".join(map(str, named)) + (" …" if count > len(named) else "")
            params = {**common, "count": count, "rows": told}
            yield DataProblem(code=code, severity=severity, count=count, rows=named, says=says, params=params)


def _told(problems: Iterable[Problem]) -> Iterable[DataProblem]:
    """Problems of a model or of a file, in the form of those of a data report."""
    for p in problems:
        yield DataProblem(code=p.code, severity=p.severity, count=1, says=p.message_key, params=dict(p.params))


def _add(report: DataReport, problems: Iterable[DataProblem]) -> DataReport:
    return report.model_copy(update={"problems": (*report.problems, *problems)})
