"""The verb `sample`: one row of a data file as the model will see it, by the code of the training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from zeroboard.contract.problems import Problem
from zeroboard.contract.requests import Answer
from zeroboard.contract.samples import Piece, SampleRequest, SampleView
from zeroboard.data.conversations import Conversation, conversations
from zeroboard.engine.channel import Channel
from zeroboard.engine.marking import Sample, encode_row, special_ids
from zeroboard.engine.rendering import TemplateRefused, ensure_template
from zeroboard.engine.tokens import load_tokenizer
from zeroboard.errors import NotFound, Refused

MOST = 4000
"""Tokens that are shown of a row."""

WINDOW = 4
"""Tokens before a piece that are decoded with it: some tokenizers write a space by what stands before."""

PARTS = 8
"""Tokens that one character takes at most."""


def main(channel: Channel) -> int:
    """The verb: one `SampleRequest` in, an `Answer` with a `SampleView` (or the problems) out."""
    request = SampleRequest.model_validate_json(channel.receive() or "")
    try:
        channel.send(Answer(value=look(request).model_dump(mode="json")))
    except Refused as refused:
        channel.send(Answer(problems=refused.problems))
    return 0


def look(request: SampleRequest) -> SampleView:
    """The row; raises `Refused`: `model-missing`, `data-missing`, `data-refused` (no such row), `template-refused`."""
    try:
        tokenizer = load_tokenizer(request.model_path, trust_remote_code=request.trust_remote_code)
    except (OSError, ValueError) as error:
        params = {"path": request.model_path, "why": str(error)}
        raise Refused([Problem(code="model-missing", field="model.path", params=params)]) from error
    ensure_template(tokenizer)
    row = _find(request)
    try:
        sample = encode_row(tokenizer, row)
    except TemplateRefused as error:
        problem = Problem(code="template-refused", field="data.path", params={"row": row.row, "why": str(error)})
        raise Refused([problem]) from error
    pieces = tuple(cut_up(tokenizer, sample, request.max_length))
    return SampleView(
        row=row.row,
        pieces=pieces,
        tokens=len(sample.ids),
        learned=sum(sample.learned[1 : request.max_length]),
        shown=sum(len(piece.ids) for piece in pieces),
        folded=sample.folded,
    )


def _find(request: SampleRequest) -> Conversation:
    try:
        for one in conversations(Path(request.data_path), request.columns, request.mix):
            if one.row == request.row:
                return one
            if one.row > request.row:
                break
    except NotFound as error:
        path = str(error.params.get("path", request.data_path))
        problem = Problem(code="data-missing", field=request.mix.field_of(path), params={"path": path})
        raise Refused([problem]) from error
    raise Refused([Problem(code="data-refused", says="problem.data-refused.no-row", params={"row": request.row})])


def cut_up(tokenizer: PreTrainedTokenizerBase, sample: Sample, max_length: int) -> Iterator[Piece]:
    """The pieces of a sample, at most `MOST` tokens; their texts one behind the other are the whole text."""
    special = special_ids(tokenizer, len(tokenizer))
    ids = sample.ids[:MOST]
    start = 0
    while start < len(ids):
        end = start + 1
        text = _text(tokenizer, ids, start, end)
        while text.endswith("\ufffd") and end < min(start + PARTS, len(ids)):  # a part of a character only
            end += 1
            text = _text(tokenizer, ids, start, end)
        yield Piece(
            text=text,
            ids=tuple(ids[start:end]),
            learned=bool(sample.learned[start]),
            special=ids[start] in special,
            cut=start >= max_length,
        )
        start = end


def _text(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], start: int, end: int) -> str:
    before = list(ids[max(0, start - WINDOW) : start])
    left, whole = (str(tokenizer.decode(part)) for part in (before, [*before, *ids[start:end]]))
    return whole[len(left) :] if whole.startswith(left) else str(tokenizer.decode(list(ids[start:end])))
