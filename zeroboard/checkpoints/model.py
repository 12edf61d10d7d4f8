"""Checks of a full model against its config: `complete config keys shapes dtype finite`.

Covered: names and shapes for the architectures of `architecture.py`; for others the rows of the embedding. Values of
every floating-point tensor. Not covered: quantised weights, whose names and shapes follow other rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from zeroboard.checkpoints import architecture
from zeroboard.checkpoints.findings import Findings
from zeroboard.checkpoints.folder import Folder
from zeroboard.checkpoints.values import can_judge, scan
from zeroboard.checkpoints.weights import PICKLED_MODEL, Weights, judge_dtype

CONFIG = "config.json"
OUTPUT = "lm_head.weight"
EMBEDDINGS = (
    "model.embed_tokens.weight",
    "transformer.wte.weight",
    "gpt_neox.embed_in.weight",
    "model.decoder.embed_tokens.weight",
    "transformer.word_embeddings.weight",
    "embed_tokens.weight",
    "wte.weight",
    "word_embeddings.weight",
)

_BUFFERS = re.compile(r".*(rotary_emb\.inv_freq|attn\.(masked_)?bias|position_ids)")
"""Left over from older versions of transformers; let pass."""


def judge_model(folder: Folder, weights: Weights, findings: Findings) -> None:
    """All of them but the values."""
    judge_complete(folder, weights, findings)
    config = judge_config(folder, findings)
    if not weights.tensors:
        return
    judge_empty(weights, findings)
    if config is None or not _judge_layout(config, weights, findings):
        findings.skip("keys", "unknown-layout" if config else "no-config", type=_model_type(config or {}))
        _judge_embedding(config or {}, weights, findings)
    findings.settle("keys", "shapes", tensors=len(weights.tensors))
    dtype = (config or {}).get("dtype") or (config or {}).get("torch_dtype")
    judge_dtype(weights, dtype if isinstance(dtype, str) else None, findings)


def judge_complete(folder: Folder, weights: Weights, findings: Findings) -> None:
    """Check `complete`: weights are there, and the save was finished."""
    if folder.path.name.startswith("tmp-"):
        findings.warn("complete", "unfinished", folder.path.name)
    if weights.headers or weights.broken:
        if weights.headers and not weights.tensors:
            findings.fail("complete", "no-tensor", weights.headers[0].path.name, size=weights.headers[0].size)
    elif pickled := [name for name in PICKLED_MODEL if name in folder.files]:
        findings.warn("complete", "only-pickle", pickled[0])
    else:
        findings.fail("complete", "no-weights")
    findings.settle("complete")


def judge_config(folder: Folder, findings: Findings) -> dict[str, Any] | None:
    """Check `config`; the config where it can be read."""
    config = folder.json(CONFIG)
    if config.fault:
        findings.fail("config", "unreadable", CONFIG, why=config.fault)
    elif config.value is None:
        findings.fail("config", "missing", CONFIG)
    elif not isinstance(config.value.get("model_type"), str):
        findings.fail("config", "no-type", CONFIG)
    return config.value


def judge_empty(weights: Weights, findings: Findings) -> None:
    """A tensor without elements was saved without being gathered."""
    for name, tensor in weights.tensors.items():
        if tensor.elements == 0:
            findings.fail("shapes", "empty", name, shape=str(list(tensor.shape)), all=len(weights.tensors))


def _judge_layout(config: dict[str, Any], weights: Weights, findings: Findings) -> bool:
    """Names and shapes against the config; False where its layout is not known here."""
    if not architecture.known(config):
        if isinstance(config.get("model_type"), str):
            findings.settle("config", type=_model_type(config))
        return False
    try:
        expected = architecture.expected_tensors(config)
    except architecture.ConfigFault as error:
        findings.fail("config", "bad-size", error.field, value=str(error.value)[:80])
        return False
    tensors = weights.tensors
    if not weights.broken:
        for name in expected.shapes:
            if name not in tensors and not (name == OUTPUT and expected.tied):
                findings.fail("keys", "missing", name, expected=len(expected.shapes))
    for name, tensor in tensors.items():
        shape = expected.shapes.get(name)
        if shape is None:
            if not _BUFFERS.fullmatch(name):
                findings.warn("keys", "unknown", name)
        elif tensor.shape != shape and tensor.elements:
            findings.fail("shapes", "not-config", name, shape=str(list(tensor.shape)), config=str(list(shape)))
    findings.settle("config", type=_model_type(config))
    return True


def _judge_embedding(config: dict[str, Any], weights: Weights, findings: Findings) -> None:
    """What can be said of any architecture: the embedding has as many rows as the config says tokens."""
    rows, wanted = embedding_rows(weights), config.get("vocab_size")
    if rows is not None and isinstance(wanted, int) and rows != wanted:
        name = next(n for n in EMBEDDINGS if n in weights.tensors)
        findings.fail("shapes", "rows", name, rows=rows, config=wanted)


def embedding_rows(weights: Weights) -> int | None:
    """Rows of the input embedding; None where it is not among the tensors."""
    name = input_embedding(weights)
    return weights.where[name][1].shape[0] if name else None


def input_embedding(weights: Weights) -> str | None:
    """Name of the input embedding; None where it is not among the tensors."""
    tensors = ((name, weights.where[name][1]) for name in EMBEDDINGS if name in weights.where)
    return next((name for name, tensor in tensors if len(tensor.shape) == 2), None)


def is_tied(config: dict[str, Any], weights: Weights) -> bool:
    """Whether the output layer shares the input embedding: as the config says, else as the files show."""
    said = config.get("tie_word_embeddings")
    return said if isinstance(said, bool) else not weights.where.keys() & {OUTPUT, "embed_out.weight"}


def _model_type(config: dict[str, Any]) -> str:
    return str(config.get("model_type", "?"))[:80]


def judge_values(
    weights: Weights,
    findings: Findings,
    *,
    may_be_constant: Callable[[str], bool] = lambda name: False,
    on_progress: Callable[[float], None] | None = None,
) -> Collection[str]:
    """Check `finite` over every tensor whose bytes are there; returns the names of those that are 0 everywhere.

    A matrix that is the same everywhere is a warning, unless `may_be_constant` says that another check looks at it.
    """
    todo = [(h, n, t) for h, n, t in weights.inside() if can_judge(t) and t.elements]
    total = sum(t.end - t.start for _, _, t in todo)
    done, zero = 0, set()

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if on_progress:
            on_progress(done / total)

    for header in weights.headers:
        with header.path.open("rb", buffering=0) as stream:
            for name, tensor in ((n, t) for h, n, t in todo if h is header):
                values = scan(stream, tensor, advance)
                if values is None:
                    findings.fail("size", "cut", header.path.name, size=header.size, promised=header.promised)
                    continue
                if values.bad_at is not None:
                    findings.fail("finite", "not-finite", name, element=values.bad_at)
                elif values.constant and len(tensor.shape) > 1 and tensor.elements > 1 and not may_be_constant(name):
                    findings.warn("finite", "constant", name, shape=str(list(tensor.shape)))
                if values.zero:
                    zero.add(name)
    if todo:
        findings.settle("finite", tensors=len(todo), bytes=total)
    elif weights.broken:
        findings.skip("finite", "unread")
    return zero
