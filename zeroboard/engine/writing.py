"""Samples on their way into a folder of arrays (see `store`): cut, counted, held out, and drawn by their weights.

Nothing but a few numbers a row stays in memory.
"""

from __future__ import annotations

import hashlib
import itertools
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from zeroboard.contract.mix import PLAIN, seen
from zeroboard.contract.plan import Bin, HeldTokens, PartTokens, TokenFacts
from zeroboard.contract.problems import Problem
from zeroboard.contract.requests import TokeniseRequest
from zeroboard.data.rows import Judged
from zeroboard.engine.marking import Sample
from zeroboard.engine.packing import pack
from zeroboard.engine.rendering import TemplateRefused
from zeroboard.errors import Refused

ROWS_NAMED = 20
"""How many row numbers are kept of each kind."""

Numbers = npt.NDArray[np.int64]


class TokenWriter:
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
        self._ends = [0] * len(request.mix.weights)
        """Where the samples of each part end."""
        self._measured: dict[str, int] = {"overlap": 0, "left_out": 0, "truncated": 0}
        self._known: npt.NDArray[np.uint64] | None = None
        """Marks of what is trained on, in order, once something is measured."""

    def __enter__(self) -> TokenWriter:
        with ExitStack() as files:
            self._ids_file = files.enter_context((self._folder / "ids.bin").open("wb", buffering=1 << 20))
            self._learned_file = files.enter_context((self._folder / "learned.bin").open("wb", buffering=1 << 20))
            self._files = files.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._files.close()

    def add(self, row: Judged, sample: Sample | TemplateRefused, part: int = 0) -> None:
        """The next row of a part; they come in order."""
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
        ids, learned = array("i", sample.ids[:most]), bytes(sample.learned[:most])
        if length > most:
            self._count("truncated", row.row)
            if any(sample.learned[most:]):  # the last learned token of a whole sample ends the last answer
                self._count("end-token-lost", row.row)
        if not any(learned[1:]):  # nothing predicts the first token
            self._count("no-trainable-tokens", row.row)
            return
        if self._request.evaluation or self._request.mix.held_out is not None:
            self._marks.append(self._mark(ids, learned))
        self._write(ids, learned)
        self._ends[part] = len(self._learned)

    def measure(self, sample: Sample | TemplateRefused) -> None:
        """The next row of the evaluation file, which comes after all that is trained on."""
        if isinstance(sample, TemplateRefused):
            self._measured["left_out"] += 1
            return
        if self._known is None:
            self._known = np.sort(np.frombuffer(self._marks, np.uint64).copy())
        most = self._request.max_length
        ids, learned = array("i", sample.ids[:most]), bytes(sample.learned[:most])
        mark = self._mark(ids, learned)
        at = int(np.searchsorted(self._known, np.uint64(mark)))
        if at < len(self._known) and int(self._known[at]) == mark:
            self._measured["overlap"] += 1
        elif not any(learned[1:]):
            self._measured["left_out"] += 1
        else:
            self._measured["truncated"] += len(sample.ids) > most
            self._write(ids, learned)

    def _mark(self, ids: array[int], learned: bytes) -> int:
        """64 bits that stand for a sample, others with each seed."""
        salt = self._request.seed.to_bytes(8, "little")
        digest = hashlib.blake2b(ids.tobytes() + learned, digest_size=8, key=salt).digest()
        return int.from_bytes(digest, "little")

    def _write(self, ids: array[int], learned: bytes) -> None:
        ids.tofile(self._ids_file)
        self._learned_file.write(learned)
        self._offsets.append(self._offsets[-1] + len(ids))
        self._learned.append(learned.count(1))
        self._highest = max(self._highest, max(ids))

    def _count(self, what: str, row: int) -> None:
        self._counts[what] += 1
        named = self._named.setdefault(what, [])
        if len(named) < ROWS_NAMED:
            named.append(row)

    def finish(self, key: str, template: Literal["model", "chatml"]) -> TokenFacts:
        """Write the small arrays; raises `Refused` where rows are to be held out and none can be."""
        ends = [0]
        for end in self._ends:
            ends.append(max(ends[-1], end))
        held = self._hold_out(ends[-1]) if ends[-1] else np.zeros(0, np.int64)
        there = [np.setdiff1d(np.arange(start, end), held) for start, end in itertools.pairwise(ends)]
        chance = np.random.default_rng(self._request.seed)
        parts = [drawn(one, weight, chance) for one, weight in zip(there, self._request.mix.weights, strict=True)]
        trained = np.concatenate(parts)
        offsets = np.frombuffer(self._offsets, np.int64)
        sizes, learned = np.diff(offsets), np.frombuffer(self._learned, np.int64)
        packed, rows = pack(sizes[trained], self._request.max_length)
        order = np.concatenate((trained, held))
        for name, numbers in (("offsets", offsets), ("order", order), ("packed", packed), ("rows", rows)):
            np.save(self._folder / f"{name}.npy", numbers)
        whole = np.frombuffer(self._lengths, np.int64)
        return TokenFacts(
            key=key,
            rows=len(trained),
            evaluation=len(held),
            packed=len(rows) - 1,
            parts=tuple(
                PartTokens(
                    rows=len(all_of_it),
                    seen=len(one),
                    tokens=int(sizes[one].sum()),
                    learned=int(learned[one].sum()),
                )
                for all_of_it, one in zip(there, parts, strict=True)
            )
            if self._request.mix.weights != PLAIN.weights
            else (),
            held=HeldTokens(**self._measured) if self._request.mix.held_out is not None else None,
            tokens=int(sizes[trained].sum()),
            learned=int(learned[trained].sum()),
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

    def _hold_out(self, trained: int) -> Numbers:
        """The samples that are measured; raises `Refused` where some are wanted and there are none.

        `trained`: samples of the files that are trained on; those of the evaluation file come behind them.
        """
        file = self._request.mix.held_out
        if file is not None:
            if len(self._learned) == trained:
                raise _nothing_measured(file.path, self._measured)
            return np.arange(trained, len(self._learned), dtype=np.int64)
        if not self._request.evaluation:
            return np.zeros(0, np.int64)
        held = held_out(self._marks, self._request.evaluation)
        if not held:
            params: dict[str, str | int] = {"path": Path(self._request.data_path).name, "rows": len(self._marks)}
            says = "problem.nothing-to-hold-out"
            raise Refused([Problem(code="data-refused", field="data.evaluation", says=says, params=params)])
        return np.array(sorted(held), np.int64)


def _nothing_measured(path: str, found: Mapping[str, int]) -> Refused:
    says = "problem.data-refused.all-trained" if found["overlap"] else "problem.data-refused.measured"
    params: dict[str, str | int] = {"path": Path(path).name, "total": found["overlap"] + found["left_out"]}
    return Refused([Problem(code="data-refused", field="data.eval_path", says=says, params=params)])


def held_out(marks: Sequence[int], share: float) -> set[int]:
    """The rows that are held out: as near to `share` of them as can be without parting rows of the same mark.

    At least one group of equal rows is held out and at least one is not; empty where all rows are alike.
    """
    groups = Counter(marks)
    if len(groups) < 2:
        return set()
    wanted = max(1, round(share * len(marks)))
    taken: set[int] = set()
    left = wanted
    for mark in sorted(groups):
        if groups[mark] <= left and len(taken) < len(groups) - 1:
            taken.add(mark)
            left -= groups[mark]
    if not taken:  # every group is larger than what was asked
        taken = {min(groups, key=lambda mark: (groups[mark], mark))}
    return {row for row, mark in enumerate(marks) if mark in taken}


def drawn(samples: Numbers, weight: float, chance: np.random.Generator) -> Numbers:
    """The samples that an epoch sees of a file, in the order of the file: each as often as fits into its weight, and
    the rest, chosen by chance, once more."""
    if not len(samples):
        return samples
    wanted = seen(len(samples), weight)
    times = np.full(len(samples), wanted // len(samples), np.int64)
    times[chance.choice(len(samples), wanted % len(samples), replace=False)] += 1
    return np.repeat(samples, times)


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
