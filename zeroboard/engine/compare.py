"""The verb `compare`: does a merged model answer as the adapter on its base does, and otherwise than the base?

Both are loaded one after the other in this fresh process. How far they may differ is measured and not assumed: the
weights of the adapter on its base are shaken by as much as rounding to the merged model's type does, and what that
changes in the logits is the measure. Covered: a wrong scale, a layer left out or merged twice, a wrong base, ends of a
tied model. Not covered: a fault whose effect is smaller than rounding; then the check `effect` warns.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pydantic import JsonValue

from zeroboard.checkpoints.folder import list_folder
from zeroboard.checkpoints.verify import make_report, verify_files
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.contract.reports import Check, CheckVerdict, VerifyReport
from zeroboard.contract.requests import Answer, CompareRequest, Message
from zeroboard.engine.channel import Channel
from zeroboard.engine.generate import CannotAsk, prompt_tokens
from zeroboard.engine.load import CannotLoad, Loaded, OnStep, find_model, load_result, stored_type
from zeroboard.engine.verify import PROMPTS, judge_effect
from zeroboard.errors import NotFound

MOST = 2.0
"""How many times the change by rounding the difference may be: both are root mean squares over some thousand logits,
and a right merge is at 1 or below."""

FLOOR = 2e-5
"""Of the logits' own root mean square: what another order of fp32 sums changes."""

ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24}
"""Largest relative error of rounding a number to the type: half of its last digit."""


class Seen(NamedTuple):
    """Logits for each prompt: (tokens, vocabulary), fp32, on the CPU."""

    tuned: list[torch.Tensor]
    """The adapter on its base."""
    base: list[torch.Tensor]
    rounding: float
    """Root mean square of what the logits change by when the weights are as inexact as the merged model's."""


def main(channel: Channel) -> int:
    """One `CompareRequest` in, progress, an `Answer` with a `VerifyReport` (or that the path is gone) out."""
    request = CompareRequest.model_validate_json(channel.receive() or "")
    try:
        report = compare(request, lambda says, done: channel.progress("compare", done, says))
    except NotFound:
        gone = Problem(code="model-missing", says="load.missing", params={"path": request.merged})
        channel.send(Answer(problems=(gone,)))
    else:
        channel.send(Answer(value=report.model_dump(mode="json")))
    return 0


def compare(request: CompareRequest, on_step: OnStep = lambda says, done: None) -> VerifyReport:
    """The checks of the merged folder's files, then `load`, `merge` and `effect`. Raises `NotFound`."""
    merged = Path(request.merged)
    files = verify_files(merged, on_progress=lambda done: on_step("verify.files", 0.2 * done))
    checks, numbers = _judge(request, on_step)
    files = files._replace(facts=files.facts | {"merge": numbers})
    on_step("verify.done", 1.0)
    return make_report(merged, files, checks)


def _judge(request: CompareRequest, on_step: OnStep) -> tuple[tuple[Check, ...], dict[str, JsonValue]]:
    base = Path(request.base) if request.base else None
    trusted = request.trust_remote_code
    try:
        kind = stored_type(list_folder(Path(request.merged)))
        on_step("compare.tuned", 0.2)
        tuned = load_result(Path(request.path), base, trust_remote_code=trusted, on_step=lambda says, done: None)
        prompts = [prompt_tokens(tuned.tokenizer, [Message(role="user", content=text)]) for text in PROMPTS]
        narrower = kind != stored_type(find_model(list_folder(Path(request.path)), base))
        seen = look(tuned, prompts, kind, narrower)
        del tuned
        _free()
        on_step("compare.merged", 0.6)
        result = load_result(Path(request.merged), None, trust_remote_code=trusted, on_step=lambda says, done: None)
        found = logits(result.model, prompts)
    except CannotLoad as error:
        verdict: CheckVerdict = "fail" if error.damaged else "skip"
        skipped = (_check("merge", "skip", "not-loaded"), _check("effect", "skip", "not-loaded"))
        load = Check(name="load", verdict=verdict, says=error.problem.message_key, params=error.problem.params)
        return (load, *skipped), {}
    except CannotAsk as error:
        skipped = (_check("merge", "skip", "not-loaded"), _check("effect", "skip", "not-loaded"))
        return (Check(name="load", verdict="warn", says=error.says, params=error.params), *skipped), {}
    load = _judge_load(result)
    checks, numbers = judge_merge(seen, found)
    return (load, *checks), numbers


def look(tuned: Loaded, prompts: Sequence[Sequence[int]], kind: torch.dtype, everything: bool) -> Seen:
    """The answers that the merged model is held against. The weights of `tuned` are spoilt afterwards."""
    with tuned.before() as model:
        base = logits(model, prompts)
    found = logits(tuned.model, prompts)
    # here peft's own merge, in memory, serves for nothing but the sizes of the merged weights
    tuned.model.merge_adapter()
    exact = logits(tuned.model, prompts)
    shake(tuned.model, kind, everything)
    return Seen(found, base, distance(exact, logits(tuned.model, prompts)))


def shake(model: Any, kind: torch.dtype, everything: bool) -> None:
    """Change the matrices by as much as rounding to `kind` does: those that were merged, or all."""
    error = ROUNDING[kind]
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if not isinstance(weight, torch.nn.Parameter) or weight.dim() < 2 or ".lora_" in name:
            continue
        if everything or name.endswith(".base_layer"):
            noise = torch.Generator(device=weight.device).manual_seed(weight.numel())
            with torch.no_grad():
                factor = torch.empty_like(weight, dtype=torch.float32).uniform_(1 - error, 1 + error, generator=noise)
                weight.copy_(weight.float() * factor)


def logits(model: Any, prompts: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """One forward pass a prompt."""
    with torch.inference_mode():
        return [model(input_ids=torch.tensor([ids], device=model.device)).logits[0].float().cpu() for ids in prompts]


def judge_merge(seen: Seen, merged: Sequence[torch.Tensor]) -> tuple[tuple[Check, Check], dict[str, JsonValue]]:
    """The checks `merge` and `effect`, and their numbers: root mean squares of what differs in the logits, and the
    largest difference."""
    difference, rounding = distance(seen.tuned, merged), seen.rounding
    effect, size = distance(seen.base, seen.tuned), _size(seen.tuned)
    largest = max(float((a - b).abs().max()) for a, b in zip(*_aligned(seen.tuned, merged), strict=True))
    numbers: dict[str, JsonValue] = {}
    if not all(map(math.isfinite, (difference, rounding, effect, largest))):
        return (_check("merge", "fail", "not-finite"), _check("effect", "skip", "not-loaded")), numbers
    numbers = {"difference": difference, "rounding": rounding, "effect": effect, "largest": largest, "logits": size}
    shown: dict[str, Scalar] = {key: f"{value:.3g}" for key, value in numbers.items()}
    allowed = MOST * rounding + FLOOR * size
    verdict: CheckVerdict = "pass" if difference <= allowed else "fail"
    check = _check("merge", verdict, "ok" if verdict == "pass" else "differs", allowed=f"{allowed:.3g}", **shown)
    if 0 < effect <= allowed:
        return (check, _check("effect", "warn", "drowned", **shown)), numbers
    changed, _ = judge_effect(seen.base, merged)
    return (check, changed), numbers


def distance(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> float:
    """Root mean square of the difference, over the vocabulary that both have."""
    first, second = _aligned(one, other)
    squares = sum(float((a - b).double().square().sum()) for a, b in zip(first, second, strict=True))
    return math.sqrt(squares / sum(a.numel() for a in first))


def _aligned(
    one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    widths = [min(a.shape[-1], b.shape[-1]) for a, b in zip(one, other, strict=True)]
    return [a[:, :w] for a, w in zip(one, widths, strict=True)], [b[:, :w] for b, w in zip(other, widths, strict=True)]


def _size(values: Sequence[torch.Tensor]) -> float:
    return math.sqrt(sum(float(v.double().square().sum()) for v in values) / sum(v.numel() for v in values))


def _judge_load(result: Loaded) -> Check:
    for says, names in (("missing", result.missing), ("mismatched", result.mismatched)):
        if names:
            return _check("load", "fail", says, names=", ".join(names[:3]), count=len(names))
    return _check("load", "pass", "ok", device=result.device)


def _free() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _check(name: str, verdict: CheckVerdict, what: str, **params: Scalar) -> Check:
    return Check(name=name, verdict=verdict, says=f"check.{name}.{what}", params=params)
