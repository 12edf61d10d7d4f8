"""The verb `tokenise`: a data file becomes arrays that every rank maps into memory.

A folder of `cache/tokens/` holds `ids.npy` (int32, all samples one behind the other), `learned.npy` (bool, as long),
`offsets.npy` (int64, where each sample begins, and the end) and `manifest.json` (`TokenFacts`), written last. It
appears whole or not at all. The samples that are trained on come first, then those that are held out for evaluation.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from zeroboard.contract.plan import TOKENS_MANIFEST, TokenFacts, read_tokens
from zeroboard.contract.problems import Problem
from zeroboard.contract.requests import Answer, TokeniseRequest
from zeroboard.data.conversations import conversations
from zeroboard.engine.channel import Channel
from zeroboard.engine.loss import IGNORED
from zeroboard.engine.rendering import Sample, TemplateRefused, encode_row, ensure_template
from zeroboard.errors import NotFound, Refused
from zeroboard.files import place, read_json, share, to_json, write_atomic

Told = Callable[[int, int], None]
"""Called with rows done and rows there are."""


def main(channel: Channel) -> int:
    """The verb: one `TokeniseRequest` in, progress, an `Answer` with `TokenFacts` (or the problems) out."""
    request = TokeniseRequest.model_validate_json(channel.receive() or "")

    def told(done: int, total: int) -> None:
        channel.progress("tokenise", done / total, "progress.tokenise", rows=done, total=total)

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
    """The tokenizer of a model's folder, or of a GGUF file in it. Raises `OSError` or `ValueError`: there is none."""
    loaded = AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=trust_remote_code, gguf_file=gguf_file
    )
    assert isinstance(loaded, PreTrainedTokenizerBase)
    return loaded


def tokenise(request: TokeniseRequest, told: Told = lambda done, total: None) -> TokenFacts:
    """Tokenise and mask the file into the folder `request.target`, or find that it was done before.

    Raises `Refused`: `model-missing`, `data-missing`, `template-refused`, or `data-refused` where nothing is learned.
    """
    target = Path(request.target)
    known = read_tokens(target)
    if known is not None:
        _check_vocabulary(request, target)
        return known
    try:
        tokenizer = load_tokenizer(request.model_path, trust_remote_code=request.trust_remote_code)
    except (OSError, ValueError) as error:
        raise Refused([_problem("model-missing", "model.path", path=request.model_path, why=str(error))]) from error
    template = ensure_template(tokenizer)
    path = Path(request.data_path)
    arrays = _Arrays(request.max_length)
    try:
        total = sum(1 for _ in conversations(path))
        for count, conversation in enumerate(conversations(path), 1):
            try:
                arrays.add(encode_row(tokenizer, conversation))
            except TemplateRefused as error:
                raise Refused(
                    [_problem("template-refused", "data.path", row=conversation.row, why=str(error))]
                ) from error
            if count % 50 == 0 or count == total:
                told(count, total)
    except NotFound as error:
        raise Refused([_problem("data-missing", "data.path", path=str(path))]) from error
    if not arrays.rows:
        nothing = Problem(
            code="data-refused",
            field="data.path",
            says="problem.nothing-to-learn",
            params={"path": path.name, "rows": total, "max_length": request.max_length},
        )
        raise Refused([nothing])
    held = _hold_out(request, arrays)
    facts = TokenFacts(
        key=target.name,
        rows=arrays.rows - held,
        evaluation=held,
        tokens=arrays.offsets[arrays.rows - held],
        learned=sum(arrays.learned[: arrays.offsets[arrays.rows - held]]),
        longest=arrays.longest,
        truncated=arrays.truncated,
        end_token_lost=arrays.end_token_lost,
        without_trainable=arrays.without_trainable,
        template=template,
    )
    _write(target, arrays, facts)
    _check_vocabulary(request, target)
    return facts


def _hold_out(request: TokeniseRequest, arrays: _Arrays) -> int:
    """Put the samples that are held out behind the others; how many they are. Raises `Refused` where none can be."""
    if not request.evaluation:
        return 0
    held = held_out(arrays.marks(request.seed), request.evaluation)
    if not held:
        params: dict[str, str | int] = {"path": Path(request.data_path).name, "rows": arrays.rows}
        says = "problem.nothing-to-hold-out"
        raise Refused([Problem(code="data-refused", field="data.evaluation", says=says, params=params)])
    arrays.reorder([row for row in range(arrays.rows) if row not in held] + sorted(held))
    return len(held)


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


def _check_vocabulary(request: TokeniseRequest, target: Path) -> None:
    """The model has a row for every token of the data; raises `Refused` where its vocabulary is too small for them.

    Otherwise the ranks would fail with an index out of range, on a GPU with an assert that names nothing.
    """
    config = read_json(Path(request.model_path) / "config.json")
    rows = config.get("vocab_size") or config.get("text_config", {}).get("vocab_size")
    highest = int(np.load(target / "ids.npy", mmap_mode="r").max())
    if isinstance(rows, int) and highest >= rows:
        params: dict[str, str | int] = {"model": request.model_path, "rows": rows, "token": highest}
        says = "problem.model-unsupported.vocabulary"
        raise Refused([Problem(code="model-unsupported", field="model.path", says=says, params=params)])


def _problem(code: str, field: str, **params: str | int) -> Problem:
    return Problem(code=code, field=field, params=params)


class _Arrays:
    """Samples laid one behind the other, cut to the maximum length, and what was counted on the way."""

    def __init__(self, max_length: int) -> None:
        self.max_length = max_length
        self.ids = array("i")
        self.learned = array("b")
        self.offsets = array("q", [0])
        self.longest = 0
        self.truncated = 0
        self.end_token_lost = 0
        self.without_trainable = 0

    @property
    def rows(self) -> int:
        return len(self.offsets) - 1

    def add(self, sample: Sample) -> None:
        length = len(sample.ids)
        self.longest = max(self.longest, length)
        ids, learned = sample.ids[: self.max_length], sample.learned[: self.max_length]
        if length > self.max_length:
            self.truncated += 1
            # the last learned token of a whole sample ends the last answer
            self.end_token_lost += any(sample.learned[self.max_length :])
        if not any(learned[1:]):  # nothing predicts the first token
            self.without_trainable += 1
            return
        self.ids.extend(ids)
        self.learned.extend(learned)
        self.offsets.append(len(self.ids))

    def marks(self, seed: int) -> list[int]:
        """A number for each sample, chosen by the seed as if by chance; samples that are exactly alike share it."""
        salt = seed.to_bytes(8, "little")
        found = []
        for start, end in itertools.pairwise(self.offsets):
            sample = self.ids[start:end].tobytes() + self.learned[start:end].tobytes()
            found.append(int.from_bytes(hashlib.blake2b(sample, digest_size=8, key=salt).digest(), "little"))
        return found

    def reorder(self, rows: Sequence[int]) -> None:
        """Lay the samples in another order."""
        ids, learned, offsets = array("i"), array("b"), array("q", [0])
        for row in rows:
            start, end = self.offsets[row], self.offsets[row + 1]
            ids.extend(self.ids[start:end])
            learned.extend(self.learned[start:end])
            offsets.append(len(ids))
        self.ids, self.learned, self.offsets = ids, learned, offsets


def _write(target: Path, arrays: _Arrays, facts: TokenFacts) -> None:
    """The folder, whole: written beside its place, the manifest last, then renamed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        np.save(folder / "ids.npy", np.frombuffer(arrays.ids, dtype=np.int32))
        np.save(folder / "learned.npy", np.frombuffer(arrays.learned, dtype=np.int8).astype(bool))
        np.save(folder / "offsets.npy", np.frombuffer(arrays.offsets, dtype=np.int64))
        write_atomic(folder / TOKENS_MANIFEST, to_json(facts.model_dump(mode="json")))
        share(folder)
        if target.exists() and read_tokens(target) is None:  # left there by a crash, so not whole
            shutil.rmtree(target)
        place(folder, target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


class TokenData(Dataset[dict[str, torch.Tensor]]):
    """Samples of a tokens folder, mapped into memory: all ranks of a machine share the pages.

    Those that are trained on, or those that are held out. Raises `NotFound` where the folder is not whole.
    """

    def __init__(self, folder: Path, part: Literal["train", "evaluation"] = "train") -> None:
        facts = read_tokens(folder)
        if facts is None:
            raise NotFound("error.tokens-missing", path=str(folder))
        self.facts = facts
        self._ids = np.load(folder / "ids.npy", mmap_mode="r")
        self._learned = np.load(folder / "learned.npy", mmap_mode="r")
        offsets = np.load(folder / "offsets.npy", mmap_mode="r")
        self._offsets = offsets[: facts.rows + 1] if part == "train" else offsets[facts.rows :]

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def length(self, index: int) -> int:
        """Tokens of one sample."""
        return int(self._offsets[index + 1] - self._offsets[index])

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """`input_ids` and `labels` of one sample, int64, (length,); labels that are not learned are -100."""
        start, end = int(self._offsets[index]), int(self._offsets[index + 1])
        ids = torch.from_numpy(self._ids[start:end].astype(np.int64))
        learned = torch.from_numpy(self._learned[start:end].copy())
        return {"input_ids": ids, "labels": torch.where(learned, ids, IGNORED)}
