"""Several samples in one row, so that little of it is padding: best fit, the longest sample first.

Which samples share a row is decided once, when the data is tokenised, so that the number of rows, and with it the
number of steps, is known before the training starts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def pack(lengths: Sequence[int] | Numbers, capacity: int) -> tuple[Numbers, Numbers]:
    """Deal samples of these lengths, none above `capacity`, into rows that hold at most `capacity` tokens.

    Returns the samples in the order of the rows, and where in that order each row begins, and the end. Each sample
    goes, in the order of falling length, into the row with the least room that is enough, or into a new one.
    """
    sizes = np.asarray(lengths, np.int64)
    rows: list[list[int]] = []
    open_rows: dict[int, list[int]] = {}
    rooms = 0  # bit n: there is a row with room for n more
    for sample in np.argsort(-sizes, kind="stable").tolist():
        size = int(sizes[sample])
        fitting = rooms >> size
        room = size + (fitting & -fitting).bit_length() - 1 if fitting else capacity
        if fitting:
            row = open_rows[room].pop()
            if not open_rows[room]:
                rooms ^= 1 << room
            rows[row].append(sample)
        else:
            row = len(rows)
            rows.append([sample])
        left = room - size
        if left:
            waiting = open_rows.setdefault(left, [])
            if not waiting:
                rooms |= 1 << left
            waiting.append(row)
    order = np.fromiter((sample for row in rows for sample in row), np.int64, len(sizes))
    return order, np.concatenate(([0], np.cumsum([len(row) for row in rows], dtype=np.int64)))
