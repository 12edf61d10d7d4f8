"""Several data files as one: which, how often the rows of each are seen, and what is only measured."""

from __future__ import annotations

import math
from pathlib import PurePath

from zeroboard.contract.base import Record


class DataPart(Record):
    """A data file, or a folder of them, among others."""

    path: str
    """As the user wrote it, or absolute where it was looked up."""
    weight: float = 1.0
    """How many times its rows are seen in an epoch; see `seen`."""
    columns: dict[str, str] = {}
    """What its columns mean, our name → theirs."""


class Mix(Record):
    """What there is besides the one data file that every run has."""

    weight: float = 1.0
    """Of that file."""
    more: tuple[DataPart, ...] = ()
    """Trained on together with it."""
    held_out: DataPart | None = None
    """Not trained on: its loss is measured."""

    @property
    def weights(self) -> tuple[float, ...]:
        """Of all that is trained on, the one file first."""
        return (self.weight, *(part.weight for part in self.more))

    @property
    def paths(self) -> tuple[str, ...]:
        """Of all files besides the one."""
        return tuple(part.path for part in (*self.more, self.held_out) if part is not None)

    def field_of(self, path: str) -> str:
        """The field of a spec that names a file, or the folder that it lies in."""
        if any(PurePath(path).is_relative_to(part.path) for part in self.more):
            return "data.more"
        if self.held_out is not None and PurePath(path).is_relative_to(self.held_out.path):
            return "data.eval_path"
        return "data.path"

    @property
    def unweighed(self) -> Mix:
        """These files, each of them seen once."""
        return Mix(more=tuple(part.model_copy(update={"weight": 1.0}) for part in self.more), held_out=self.held_out)

    @property
    def plain(self) -> bool:
        """There is nothing besides the one file, and its rows are seen once."""
        return self == PLAIN

    @property
    def drawn(self) -> bool:
        """Whether it is left to the seed which rows are seen once more than others."""
        return any(weight != int(weight) for weight in self.weights)

    def as_weighed(self, other: Mix) -> Mix:
        """These files with the weights of another mix of as many."""
        more = tuple(
            part.model_copy(update={"weight": weight})
            for part, weight in zip(self.more, other.weights[1:], strict=True)
        )
        return self.model_copy(update={"weight": other.weight, "more": more})


PLAIN = Mix()


def seen(rows: int, weight: float) -> int:
    """How many samples an epoch has of a file of so many: each as often as fits into weight × rows, and then the rest
    drawn once more. A file that has rows gives one at least."""
    return max(1, math.floor(weight * rows + 0.5)) if rows else 0
