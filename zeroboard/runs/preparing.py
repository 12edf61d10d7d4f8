"""What comes before the ranks: the files are those that were previewed, the model is there, the data is tokenised."""

from __future__ import annotations

import logging
from pathlib import Path

from zeroboard.catalogue import bundled_model
from zeroboard.contract.plan import Resolved, TokenFacts, hash_plan, read_tokens
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.contract.requests import ConvertRequest, TokeniseRequest
from zeroboard.contract.spec import RunSpec
from zeroboard.planning.steps import steps
from zeroboard.planning.tokens import nothing_learned, rows_of, spec_key
from zeroboard.runs.context import Context, Failed

log = logging.getLogger(__name__)


def prepare(context: Context) -> None:
    """Everything before the launch; raises `Failed` and `Stopped`."""
    check_files(context)
    resolved = context.plan.resolved
    if resolved is None:  # a plan with errors is refused before it gets a folder
        raise Failed(Problem(code="value-range", says="run.failed.plan"))
    spec = context.spec()
    convert(context, resolved)
    tokens = tokenise(context, resolved, spec)
    context.life.note(steps=count_steps(resolved, spec, tokens))


def check_files(context: Context) -> None:
    """Start runs what Preview showed: raises `Failed` where the plan, or a file of it, is another one by now."""
    if hash_plan(context.plan) != context.life.state.plan_hash:
        raise Failed(_changed("plan.json"))
    for name, content in context.plan.files.items():
        try:
            found = (context.run.folder / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Failed(_changed(name)) from error
        if found != content:
            raise Failed(_changed(name))


def convert(context: Context, resolved: Resolved) -> None:
    """Prepare a bundled model, once."""
    target = Path(resolved.model_path)
    if (target / "config.json").is_file() or bundled_model(resolved.model_name) is None:
        return
    context.life.phase("convert")
    context.verb("convert", ConvertRequest(name=resolved.model_name, target=str(target)), "convert")


def tokenise(context: Context, resolved: Resolved, spec: RunSpec) -> TokenFacts:
    """Tokenise the data, once for each content; raises `Failed` where nothing in it would be learned."""
    target = context.paths.tokens / resolved.tokens_key
    facts = read_tokens(target)
    if facts is None:
        check_data(context, resolved, spec)
        context.life.phase("tokenise")
        request = TokeniseRequest(
            data_path=resolved.data_path,
            model_path=resolved.model_path,
            max_length=spec.data.max_length,
            evaluation=spec.data.share,
            seed=spec.train.seed,
            columns=spec.data.chosen,
            mix=resolved.mix,
            target=str(target),
            trust_remote_code=spec.model.trust_remote_code,
        )
        facts = TokenFacts.model_validate(context.verb("tokenise", request, "tokenise").value)
    problem = nothing_learned(facts, path=Path(resolved.data_path), max_length=spec.data.max_length)
    if problem is not None:
        raise Failed(problem)
    return facts


def check_data(context: Context, resolved: Resolved, spec: RunSpec) -> None:
    """The data is that of the preview: else other tokens would be kept under its name. Raises `Failed`."""
    model, data = context.plan.model, Path(resolved.data_path)
    if model is None or not data.exists():  # the engine says what is missing
        return
    try:
        key = spec_key(spec, data, model, resolved.mix)
    except FileNotFoundError:  # of the mix
        return
    if key != resolved.tokens_key:
        params: dict[str, Scalar] = {"path": ", ".join((resolved.data_path, *resolved.mix.paths))}
        raise Failed(Problem(code="plan-changed", field="data.path", says="run.failed.data-changed", params=params))


def count_steps(resolved: Resolved, spec: RunSpec, tokens: TokenFacts) -> int:
    """How many optimizer steps it will be, now that the rows are known."""
    return steps(
        rows_of(tokens, spec.data.packing),
        ranks=resolved.batch.gpus,
        micro=resolved.batch.micro,
        accumulation=resolved.batch.accumulation,
        epochs=spec.train.epochs,
        max_steps=spec.train.max_steps,
    )


def _changed(name: str) -> Problem:
    return Problem(code="plan-changed", says="run.failed.changed", params={"file": name})
