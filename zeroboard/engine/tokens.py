"""The verb `tokenise`: a data file becomes a folder of arrays (see `store`), and what there is to say about it.

The file is read once, a batch of rows at a time; nothing but a few numbers a row stays in memory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from zeroboard.contract.plan import TOKENS_MANIFEST, Bin, TokenFacts, read_tokens
from zeroboard.contract.problems import Problem
from zeroboard.contract.requests import Answer, TokeniseRequest
from zeroboard.data.conversations import usable_rows
from zeroboard.data.rows import Judged
from zeroboard.engine.channel import Channel
from zeroboard.engine.marking import Sample, encode_rows
from zeroboard.engine.packing import pack
from zeroboard.engine.rendering import TemplateRefused, ensure_template
from zeroboard.errors import NotFound, Refused
from zeroboard.files import place, read_json, share, to_json, write_atomic

Told = Callable[[float, int], None]
"""Called with the share of the file that is read, 0 to 1, and the rows that are tokenised."""

BATCH_ROWS = 256
BATCH_TEXT = 1 << 20
"""Rows, or characters, that are tokenised at a time."""

ROWS_NAMED = 20
"""How many row numbers are kept of each kind."""


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
        with _Writer(folder, request) as writer:
            _read(request, tokenizer, writer, told)
        facts = writer.finish(target.name, template)
        _place(folder, target, facts)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _check_vocabulary(request, facts)
    return facts


def _read(request: TokeniseRequest, tokenizer: PreTrainedTokenizerBase, writer: _Writer, told: Told) -> None:
    share, rows = 0.0, 0

    def read(done: float) -> None:
        nonlocal share
        share = done

    try:
        for batch in _batches(usable_rows(Path(request.data_path), read, columns=request.columns)):
            made = encode_rows(tokenizer, [one.conversation for one in batch if one.conversation is not None])
            for one, sample in zip(batch, made, strict=True):
                writer.add(one, sample)
            rows += len(batch)
            told(share, rows)
    except NotFound as error:
        raise Refused([_problem("data-missing", "data.path", path=request.data_path)]) from error


def _batches(rows: Iterable[Judged]) -> Iterator[list[Judged]]:
    """Rows in portions that are worth the call and fit into memory."""
    batch: list[Judged] = []
    size = 0
    for row in rows:
        assert row.conversation is not None  # usable rows alone come here
        batch.append(row)
        size += sum(len(turn.content) for turn in row.conversation.turns) + len(row.conversation.text or "")
        if len(batch) == BATCH_ROWS or size >= BATCH_TEXT:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def held_out(marks: Sequence[int], share: float) -> set[int]:
    """The rows that are held out: as near to `share` of them as can be without parting rows of the same mark.

    At least one group of equal rows is held out and at least one is not; empty where all rows are alike.
    """
    groups = Counter(marks)
    if len(groups) < 2:
        return set()
    wanted = max(1, round(share * len(marks)))
    taken, left = set(), wanted
    for mark in sorted(groups):
        if groups[mark] <= left and len(taken) < len(groups) - 1:
            taken.add(mark)
            left -= groups[mark]
    if not taken:  # every group is larger than what was asked
        taken = {min(groups, key=lambda mark: (groups[mark], mark))}
    return {row for row, mark in enumerate(marks) if mark in taken}


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


class _Writer:
    """Writes samples as they come, cut to the maximum length, and counts what there is to say about them."""

    def __init__(self, folder: Path, request: TokeniseRequest) -> None:
        self._folder = folder
        self._request = request
        self._files = ExitStack()
        self._offsets = array("q", [0])
        self._learned = array("q")
        self._marks = array("Q")
        self._lengths = array("q")
        """Of every row, before cutting."""
        self._highest = -1
        self._counts: Counter[str] = Counter()
        self._named: dict[str, list[int]] = {}
        self._refusal = ""

    def __enter__(self) -> _Writer:
        with ExitStack() as files:
            self._ids_file = files.enter_context((self._folder / "ids.bin").open("wb", buffering=1 << 20))
            self._learned_file = files.enter_context((self._folder / "learned.bin").open("wb", buffering=1 << 20))
            self._files = files.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._files.close()

    def add(self, row: Judged, sample: Sample | TemplateRefused) -> None:
        """The next row of the file."""
        if isinstance(sample, TemplateRefused):
            self._count("template-refused", row.row)
            self._refusal = self._refusal or str(sample)[:300]
            return
        if sample.folded and not row.changed:
            self._count("folded", row.row)
        if sample.unended:
            self._count("unended", row.row)
        most, length = self._request.max_length, len(sample.ids)
        self._lengths.append(length)
        ids, learned = sample.ids, bytes(sample.learned)
        if length > most:
            self._count("truncated", row.row)
            if any(learned[most:]):  # the last learned token of a whole sample ends the last answer
                self._count("end-token-lost", row.row)
            ids, learned = ids[:most], learned[:most]
        if not any(learned[1:]):  # nothing predicts the first token
            self._count("no-trainable-tokens", row.row)
            return
        self._write(array("i", ids), learned)

    def _write(self, ids: array[int], learned: bytes) -> None:
        ids.tofile(self._ids_file)
        self._learned_file.write(learned)
        self._offsets.append(self._offsets[-1] + len(ids))
        self._learned.append(learned.count(1))
        self._highest = max(self._highest, max(ids))
        if self._request.evaluation:
            salt = self._request.seed.to_bytes(8, "little")
            digest = hashlib.blake2b(ids.tobytes() + learned, digest_size=8, key=salt).digest()
            self._marks.append(int.from_bytes(digest, "little"))

    def _count(self, what: str, row: int) -> None:
        self._counts[what] += 1
        named = self._named.setdefault(what, [])
        if len(named) < ROWS_NAMED:
            named.append(row)

    def finish(self, key: str, template: Literal["model", "chatml"]) -> TokenFacts:
        """Write the small arrays; raises `Refused` where rows are to be held out and none can be."""
        samples = len(self._learned)
        held = self._hold_out() if samples else set()
        trained = np.array([n for n in range(samples) if n not in held], np.int64)
        offsets = np.frombuffer(self._offsets, np.int64)
        lengths = np.diff(offsets)[trained]
        packed, rows = pack(lengths, self._request.max_length)
        order = np.concatenate((trained, np.array(sorted(held), np.int64)))
        for name, numbers in (("offsets", offsets), ("order", order), ("packed", packed), ("rows", rows)):
            np.save(self._folder / f"{name}.npy", numbers)
        whole = np.frombuffer(self._lengths, np.int64)
        return TokenFacts(
            key=key,
            rows=len(trained),
            evaluation=len(held),
            packed=len(rows) - 1,
            tokens=int(lengths.sum()),
            learned=int(np.frombuffer(self._learned, np.int64)[trained].sum()),
            longest=int(whole.max(initial=0)),
            p99=int(np.quantile(whole, 0.99, method="higher")) if len(whole) else 0,
            highest=self._highest,
            truncated=self._counts["truncated"],
            end_token_lost=self._counts["end-token-lost"],
            without_trainable=self._counts["no-trainable-tokens"],
            refused=self._counts["template-refused"],
            refusal=self._refusal,
            folded=self._counts["folded"],
            unended=self._counts["unended"],
            named={what: tuple(rows) for what, rows in self._named.items()},
            histogram=histogram(whole),
            template=template,
        )

    def _hold_out(self) -> set[int]:
        """The samples that are held out; raises `Refused` where some are wanted and none can be."""
        if not self._request.evaluation:
            return set()
        held = held_out(self._marks, self._request.evaluation)
        if not held:
            params: dict[str, str | int] = {"path": Path(self._request.data_path).name, "rows": len(self._marks)}
            says = "problem.nothing-to-hold-out"
            raise Refused([Problem(code="data-refused", field="data.evaluation", says=says, params=params)])
        return held


BINS = 24
"""At most so many bars."""


def histogram(lengths: np.typing.NDArray[np.int64]) -> tuple[Bin, ...]:
    """How many rows have how many tokens, in bins of 1, 2 or 5 times a power of ten, from 0 to the longest."""
    if not len(lengths):
        return ()
    longest = int(lengths.max())
    width = next(w for e in range(20) for w in (10**e, 2 * 10**e, 5 * 10**e) if w * BINS > longest)
    counts = np.bincount(lengths // width)
    return tuple(Bin(start=n * width, end=(n + 1) * width - 1, rows=int(rows)) for n, rows in enumerate(counts))


def _place(folder: Path, target: Path, facts: TokenFacts) -> None:
    """Give the folder its manifest and its place; it was written beside it."""
    write_atomic(folder / TOKENS_MANIFEST, to_json(facts.model_dump(mode="json")))
    share(folder)
    if target.exists() and read_tokens(target) is None:  # left there by a crash, so not whole
        shutil.rmtree(target)
    place(folder, target)
