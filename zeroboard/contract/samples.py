"""One row of a data file as the model will see it: verb `sample`."""

from __future__ import annotations

from zeroboard.contract.base import Record
from zeroboard.contract.mix import PLAIN, Mix


class SampleRequest(Record):
    """Verb `sample`: render, tokenise and mask one row. Answer: `SampleView`."""

    data_path: str
    model_path: str
    row: int
    """Record number, from 1, through all that is trained on."""
    max_length: int
    columns: dict[str, str] = {}
    """What columns of the file mean, our name → theirs."""
    mix: Mix = PLAIN
    """What is trained on together with it."""
    trust_remote_code: bool = False


class Piece(Record):
    """A piece of the rendered text: one token, or those of a character that takes several."""

    text: str
    ids: tuple[int, ...]
    learned: bool = False
    special: bool = False
    """It stands for no text, but marks turns or ends."""
    cut: bool = False
    """It lies beyond the maximum length."""


class SampleView(Record):
    """A row as the model will see it."""

    row: int
    pieces: tuple[Piece, ...]
    """The first of them, where there are very many."""
    tokens: int
    learned: int
    """Of those within the maximum length."""
    shown: int
    """Tokens that `pieces` hold."""
    folded: bool = False
    """The system turn became a part of the first question."""
