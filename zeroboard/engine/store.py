"""A folder of `cache/tokens/`: tokenised samples as arrays that every rank maps into memory.

`ids.bin` (int32) and `learned.bin` (a byte for each token, 1 or 0) hold all samples one behind the other in the order
of the file, `offsets.npy` (int64) where each begins, and the end. `order.npy` (int64) names the samples that are
trained on and behind them those that are held out. `packed.npy` and `rows.npy` (int64) say which of those that are
trained on share a row where they are packed: positions in `order`, and where in them each row begins, and the end.
`manifest.json` (`TokenFacts`) is written last. The folder appears whole or not at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset

from zeroboard.contract.plan import read_tokens
from zeroboard.engine.loss import IGNORED
from zeroboard.errors import NotFound

Part = Literal["train", "evaluation"]


class Store:
    """The arrays of a folder. Raises `NotFound` where it is not whole."""

    def __init__(self, folder: Path) -> None:
        facts = read_tokens(folder)
        if facts is None:
            raise NotFound("error.tokens-missing", path=str(folder))
        self.facts = facts
        self.folder = folder
        self.ids = _map(folder / "ids.bin", np.int32)
        self.learned = _map(folder / "learned.bin", np.bool_)
        self.offsets = self.read("offsets")
        self.order = self.read("order")

    def read(self, name: str) -> npt.NDArray[np.int64]:
        """One of the small arrays."""
        found: npt.NDArray[np.int64] = np.load(self.folder / f"{name}.npy")
        return found

    def span(self, sample: int) -> tuple[int, int]:
        """Where the tokens of a sample of the file stand in `ids`."""
        return int(self.offsets[sample]), int(self.offsets[sample + 1])


def _map(file: Path, kind: type[np.generic]) -> npt.NDArray[np.generic]:
    """A file as an array; no bytes cannot be mapped."""
    return np.memmap(file, kind, "r") if file.stat().st_size else np.zeros(0, kind)


class TokenData(Dataset[dict[str, torch.Tensor]]):
    """Samples of a tokens folder: those that are trained on, or those that are held out.

    Raises `NotFound` where the folder is not whole.
    """

    def __init__(self, folder: Path, part: Part = "train") -> None:
        self._store = Store(folder)
        self.facts = self._store.facts
        trained = self.facts.rows
        self._samples = self._store.order[:trained] if part == "train" else self._store.order[trained:]

    def __len__(self) -> int:
        return len(self._samples)

    def length(self, index: int) -> int:
        """Tokens of one sample."""
        start, end = self._store.span(self._samples[index])
        return end - start

    def lengths(self) -> list[int]:
        """Tokens of each sample."""
        sizes = np.diff(self._store.offsets)[self._samples]
        return [int(size) for size in sizes]

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """`input_ids` and `labels` of one sample, int64, (length,); labels that are not learned are -100."""
        start, end = self._store.span(self._samples[index])
        ids = torch.from_numpy(self._store.ids[start:end].astype(np.int64))
        learned = torch.from_numpy(self._store.learned[start:end].copy())
        return {"input_ids": ids, "labels": torch.where(learned, ids, IGNORED)}


class PackedData(Dataset[list[dict[str, torch.Tensor]]]):
    """The samples that are trained on, as rows that several of them share."""

    def __init__(self, data: TokenData) -> None:
        self._data = data
        self._packed = data._store.read("packed")
        self._rows = data._store.read("rows")

    def __len__(self) -> int:
        return len(self._rows) - 1

    def __getitem__(self, index: int) -> list[dict[str, torch.Tensor]]:
        """The samples of one row."""
        return [self._data[int(sample)] for sample in self._packed[self._rows[index] : self._rows[index + 1]]]
