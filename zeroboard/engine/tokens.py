"""The verb `tokenise`: a data file becomes a folder of arrays (see `store`), and what there is to say about it.

The file is read once, a batch of rows at a time; nothing but a few numbers a row stays in memory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from zeroboard.contract.plan import TOKENS_MANIFEST, TokenFacts, read_tokens
from zeroboard.contract.problems import Problem
from zeroboard.contract.requests import Answer, TokeniseRequest
from zeroboard.data.conversations import trained_rows, usable_rows
from zeroboard.data.records import OnProgress, part_of
from zeroboard.data.rows import Judged
from zeroboard.engine.channel import Channel
from zeroboard.engine.marking import encode_rows
from zeroboard.engine.rendering import ensure_template
from zeroboard.engine.writing import TokenWriter
from zeroboard.errors import NotFound, Refused
from zeroboard.files import place, read_json, share, to_json, write_atomic

Told = Callable[[float, int], None]
"""Called with the share of the file that is read, 0 to 1, and the rows that are tokenised."""

BATCH_ROWS = 256
BATCH_TEXT = 1 << 20
"""Rows, or characters, that are tokenised at a time."""


def main(channel: Channel) -> int:
    """The verb: one `TokeniseRequest` in, progress, an `Answer` with `TokenFacts` (or the problems) out."""
    request = TokeniseRequest.model_validate_json(channel.receive() or "")
    # off elsewhere, because of processes that are forked later; nothing is forked here, and a batch may use every core
    os.environ["TOKENIZERS_PARALLELISM"] = "true"

    def told(done: float, rows: int) -> None:
        channel.progress("tokenise", done, "progress.tokenise", rows=rows)

    try:
        facts = tokenise(request, told)
    except Refused as refused:
        channel.send(Answer(problems=refused.problems))
    else:
        channel.send(Answer(value=facts.model_dump(mode="json")))
    return 0


def load_tokenizer(
    folder: str | Path, *, trust_remote_code: bool = False, gguf_file: str | None = None
) -> PreTrainedTokenizerBase:
    """The tokenizer of a model's folder, or of a GGUF file in it.

    Raises `OSError` or `ValueError`: there is none, or none that works.
    """
    try:
        loaded = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trust_remote_code, gguf_file=gguf_file
        )
        _ = loaded.all_special_ids  # a special token that is not in the vocabulary is looked for without end
    except OSError:
        raise
    except Exception as error:  # damaged files make the libraries raise whatever they like, also plain `Exception`
        raise ValueError(str(error) or type(error).__name__) from error
    assert isinstance(loaded, PreTrainedTokenizerBase)
    return loaded


def tokenise(request: TokeniseRequest, told: Told = lambda done, rows: None) -> TokenFacts:
    """Tokenise and mask the file into the folder `request.target`, or find that it was done before.

    Rows that the template refuses, and those of which nothing is left to learn, are counted and left out; `rows` is 0
    where that is all of them. Raises `Refused`: `model-missing`, `data-missing`, or `data-refused` where the file as a
    whole is, or no row can be held out.
    """
    target = Path(request.target)
    known = read_tokens(target)
    if known is not None:
        _check_vocabulary(request, known)
        return known
    try:
        tokenizer = load_tokenizer(request.model_path, trust_remote_code=request.trust_remote_code)
    except (OSError, ValueError) as error:
        raise Refused([_problem("model-missing", "model.path", path=request.model_path, why=str(error))]) from error
    template = ensure_template(tokenizer)
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        with TokenWriter(folder, request) as writer:
            _read(request, tokenizer, writer, told)
        facts = writer.finish(target.name, template)
        _place(folder, target, facts)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _check_vocabulary(request, facts)
    return facts


def _read(request: TokeniseRequest, tokenizer: PreTrainedTokenizerBase, writer: TokenWriter, told: Told) -> None:
    share, rows = 0.0, 0

    def read(done: float) -> None:
        nonlocal share
        share = done

    try:
        for batch in _batches(_rows(request, read)):
            made = encode_rows(tokenizer, [one.conversation for _, one in batch if one.conversation is not None])
            for (part, one), sample in zip(batch, made, strict=True):
                if part is None:
                    writer.measure(sample)
                else:
                    writer.add(one, sample, part)
            rows += len(batch)
            told(share, rows)
    except NotFound as error:
        path = str(error.params.get("path", request.data_path))
        raise Refused([_problem("data-missing", request.mix.field_of(path), path=path)]) from error


def _rows(request: TokeniseRequest, read: OnProgress) -> Iterator[tuple[int | None, Judged]]:
    """Everything that is trained on, with the number of its part, and then what is measured, with none."""
    mix, measured = request.mix, request.mix.held_out
    count = 1 if measured is None else 2
    yield from trained_rows(Path(request.data_path), part_of(read, 0, count), columns=request.columns, mix=mix)
    if measured is not None:
        for row in usable_rows(Path(measured.path), part_of(read, 1, count), columns=measured.columns):
            yield None, row


def _batches(rows: Iterable[tuple[int | None, Judged]]) -> Iterator[list[tuple[int | None, Judged]]]:
    """Rows in portions that are worth the call and fit into memory."""
    batch: list[tuple[int | None, Judged]] = []
    size = 0
    for part, row in rows:
        assert row.conversation is not None  # usable rows alone come here
        batch.append((part, row))
        size += sum(len(turn.content) for turn in row.conversation.turns) + len(row.conversation.text or "")
        if len(batch) == BATCH_ROWS or size >= BATCH_TEXT:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _check_vocabulary(request: TokeniseRequest, facts: TokenFacts) -> None:
    """The model has a row for every token of the data; raises `Refused` where its vocabulary is too small for them.

    Otherwise the ranks would fail with an index out of range, on a GPU with an assert that names nothing.
    """
    config = read_json(Path(request.model_path) / "config.json")
    rows = config.get("vocab_size") or config.get("text_config", {}).get("vocab_size")
    if isinstance(rows, int) and facts.highest >= rows:
        params: dict[str, str | int] = {"model": request.model_path, "rows": rows, "token": facts.highest}
        says = "problem.model-unsupported.vocabulary"
        raise Refused([Problem(code="model-unsupported", field="model.path", says=says, params=params)])


def _problem(code: str, field: str, **params: str | int) -> Problem:
    return Problem(code=code, field=field, params=params)


def _place(folder: Path, target: Path, facts: TokenFacts) -> None:
    """Give the folder its manifest and its place; it was written beside it."""
    write_atomic(folder / TOKENS_MANIFEST, to_json(facts.model_dump(mode="json")))
    share(folder)
    if target.exists() and read_tokens(target) is None:  # left there by a crash, so not whole
        shutil.rmtree(target)
    place(folder, target)
