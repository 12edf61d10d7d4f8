"""The verb `verify`: judges the files, then loads the result in this fresh process and measures what it changes.

Covered: the checks of `zeroboard.checkpoints.verify`; `load`: every weight finds its place and the answers are numbers;
`effect`: logits with and without what was trained, on fixed prompts. Not covered: whether the answers are good.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import JsonValue

from zeroboard.checkpoints.verify import FileVerdict, make_report, verify_files
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.contract.reports import Check, CheckVerdict, VerifyReport
from zeroboard.contract.requests import Answer, Message, VerifyRequest
from zeroboard.engine.channel import Channel
from zeroboard.engine.generate import CannotAsk, Pieces, generate, prompt_tokens, stop_tokens
from zeroboard.engine.load import CannotLoad, Loaded, load_result
from zeroboard.engine.rows import judge_rows
from zeroboard.errors import NotFound

PROMPTS = ("Who are you?", "What is the capital of France?")
"""Asked before and after, always the same so that runs can be compared."""

ANSWER_TOKENS = 24

BARELY = 1e-6
"""Largest change of a logit, relative to the largest logit, below which an effect is no more than rounding."""

_MUST_BE_SOUND = frozenset(("complete", "header", "size", "index", "shards", "shapes", "config", "base"))
"""Where one of these fails, loading could only repeat it, less clearly."""

Step = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Said:
    """What a model made of one prompt."""

    logits: torch.Tensor
    """(tokens of the prompt, vocabulary), float32, on the CPU."""
    text: str


def main(channel: Channel) -> int:
    """One request, progress, one `Answer`: its value is a `VerifyReport`, or its problem that the path is gone."""
    request = VerifyRequest.model_validate_json(channel.receive() or "")
    base = Path(request.base) if request.base else None
    tell = _every_percent(lambda done: channel.progress("files", done, "verify.files"))
    try:
        files = verify_files(Path(request.path), base=base, on_progress=tell)
    except NotFound:
        gone = Problem(code="model-missing", says="load.missing", params={"path": request.path})
        channel.send(Answer(problems=(gone,)))
        return 0
    loaded: list[Check] = []
    facts: dict[str, JsonValue] = {}
    if request.load:
        if request.rows is not None:
            trusted = request.trust_remote_code
            loaded.append(judge_rows(Path(request.path), base, request.rows, trust_remote_code=trusted))
        checks, facts = judge_loaded(
            Path(request.path),
            base,
            files,
            trust_remote_code=request.trust_remote_code,
            prompts=(*PROMPTS, *request.prompts),
            on_step=lambda done, says: channel.progress("load", done, says),
        )
        loaded += checks
    files = files._replace(facts=files.facts | facts)
    report: VerifyReport = make_report(Path(request.path), files, loaded)
    channel.send(Answer(value=report.model_dump(mode="json")))
    return 0


def judge_loaded(
    path: Path,
    base: Path | None,
    files: FileVerdict,
    *,
    trust_remote_code: bool = False,
    prompts: Sequence[str] = PROMPTS,
    on_step: Step,
) -> tuple[tuple[Check, Check], dict[str, JsonValue]]:
    """The checks `load` and `effect`, and facts: `load`, `effect` (numbers), `prompts` (answers before and after).

    `prompts` begins with `PROMPTS`; the effect is measured on those alone, so that runs can be compared.
    """
    if files.kind not in ("lora-adapter", "full-model"):
        return (_check("load", "skip", "not-a-model"), _check("effect", "skip", "not-loaded")), {}
    if broken := [c.name for c in files.checks if c.verdict == "fail" and c.name in _MUST_BE_SOUND]:
        return (_check("load", "skip", "files-first", names=", ".join(dict.fromkeys(broken))), _not_loaded()), {}
    started = time.monotonic()
    try:
        loaded = load_result(
            path, base, trust_remote_code=trust_remote_code, on_step=lambda says, done: on_step(done * 0.4, says)
        )
        on_step(0.4, "verify.after")
        after = ask_all(loaded.model, loaded, prompts)
    except CannotLoad as error:
        verdict: CheckVerdict = "fail" if error.damaged else "skip"
        return (_said("load", verdict, error.problem.message_key, error.problem.params), _not_loaded()), {}
    except CannotAsk as error:
        return (_said("load", "warn", error.says, error.params), _not_loaded()), {}
    facts: dict[str, JsonValue] = {
        "load": {
            "device": loaded.device,
            "dtype": str(next(loaded.model.parameters()).dtype).removeprefix("torch."),
            "seconds": round(time.monotonic() - started, 2),
            "template": loaded.template,
            "messages": list(loaded.messages),
        }
    }
    load = _judge_load(loaded, after)
    if load.verdict == "fail":
        return (load, _not_loaded()), facts
    on_step(0.7, "verify.before")
    before = _before(loaded, prompts)
    if before is None:
        facts["prompts"] = [{"prompt": p, "after": a.text} for p, a in zip(prompts, after, strict=True)]
        return (load, _check("effect", "skip", "no-base")), facts
    if isinstance(before, CannotLoad):
        return (load, _said("effect", "skip", before.problem.message_key, before.problem.params)), facts
    facts["prompts"] = [
        {"prompt": p, "before": b.text, "after": a.text} for p, b, a in zip(prompts, before, after, strict=True)
    ]
    fixed = slice(len(PROMPTS))
    effect, numbers = judge_effect([said.logits for said in before[fixed]], [said.logits for said in after[fixed]])
    facts["effect"] = numbers
    on_step(1.0, "verify.done")
    return (load, effect), facts


def ask_all(model: Any, loaded: Loaded, prompts: Sequence[str] = PROMPTS) -> list[Said]:
    """Every prompt: one forward pass, and a short answer with the likeliest token each time."""
    said = []
    for prompt in prompts:
        ids = prompt_tokens(loaded.tokenizer, [Message(role="user", content=prompt)])
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([ids], device=model.device)).logits[0].float().cpu()
        pieces = Pieces(loaded.tokenizer)
        texts: list[str] = []
        generate(
            model,
            ids,
            stops=stop_tokens(loaded.tokenizer, model),
            max_new_tokens=ANSWER_TOKENS,
            on_token=lambda token, pieces=pieces, texts=texts: texts.append(pieces.push(token)),  # type: ignore[misc]
        )
        said.append(Said(logits, "".join(texts) + pieces.rest()))
    return said


def judge_effect(before: Sequence[torch.Tensor], after: Sequence[torch.Tensor]) -> tuple[Check, dict[str, JsonValue]]:
    """Check `effect`, and its numbers: `max` and `mean` of |Δlogit|, `changed`: share of top tokens that are others.

    Logits are (tokens of a prompt, vocabulary). A vocabulary that training has enlarged is compared over the rows that
    both have.
    """
    largest, scale, total, count, changed, places = 0.0, 0.0, 0.0, 0, 0, 0
    for old, new in zip(before, after, strict=True):
        width = min(old.shape[-1], new.shape[-1])
        one, other = old[:, :width], new[:, :width]
        difference = (other - one).abs()
        largest = max(largest, float(difference.max()))
        scale = max(scale, float(one.abs().max()))
        total += float(difference.double().sum())
        count += difference.numel()
        changed += int((one.argmax(-1) != other.argmax(-1)).sum())
        places += one.shape[0]
    if not math.isfinite(largest):
        return _check("effect", "skip", "base-not-finite"), {}
    numbers: dict[str, JsonValue] = {"max": largest, "mean": total / count, "changed": changed / places}
    shown = {"max": f"{largest:.3g}", "mean": f"{total / count:.3g}", "changed": f"{100 * changed / places:.0f}"}
    if largest == 0:
        return _check("effect", "fail", "none", **shown), numbers
    if largest <= BARELY * scale:
        return _check("effect", "warn", "rounding", **shown), numbers
    return _check("effect", "pass", "ok", **shown), numbers


def _judge_load(loaded: Loaded, after: Sequence[Said]) -> Check:
    for says, names in (("missing", loaded.missing), ("mismatched", loaded.mismatched)):
        if names:
            return _check("load", "fail", says, names=", ".join(names[:3]), count=len(names))
    if not all(torch.isfinite(said.logits).all() for said in after):
        return _check("load", "fail", "not-finite")
    if loaded.unexpected:
        names = loaded.unexpected
        return _check("load", "warn", "unexpected", names=", ".join(names[:3]), count=len(names))
    says = "ok" if loaded.template == "model" else "ok-chatml"
    return _check("load", "pass", says, device=loaded.device)


def _before(loaded: Loaded, prompts: Sequence[str]) -> list[Said] | CannotLoad | None:
    """The same prompts without what was trained; None where a full model's base is not known.

    A full model is given up before its base is loaded, so that memory holds one of them at a time.
    """
    if not loaded.adapter:
        if loaded.base_folder is None:
            return None
        loaded.model = None
        gc.collect()
        if loaded.device == "cuda":
            torch.cuda.empty_cache()
    try:
        with loaded.before() as model:
            return ask_all(model, loaded, prompts)
    except CannotLoad as error:
        return error


def _check(name: str, verdict: CheckVerdict, what: str, **params: Scalar) -> Check:
    return Check(name=name, verdict=verdict, says=f"check.{name}.{what}", params=params)


def _said(name: str, verdict: CheckVerdict, says: str, params: dict[str, Scalar]) -> Check:
    return Check(name=name, verdict=verdict, says=says, params=params)


def _not_loaded() -> Check:
    return _check("effect", "skip", "not-loaded")


def _every_percent(tell: Callable[[float], None]) -> Callable[[float], None]:
    """Only whole percents are told: a folder of many gigabytes is read in small pieces."""
    last = -1

    def heard(done: float) -> None:
        nonlocal last
        if (percent := int(done * 100)) > last:
            last = percent
            tell(done)

    return heard
