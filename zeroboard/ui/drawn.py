"""What all browsers would have to make alike, made once: pictures, and what was found about a run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

KEPT = 128
"""Most slots that are held; the one that was asked for least lately goes first."""


class Memo(Generic[T]):
    """A value a slot, made again when one of its parts is another one.

    Parts are compared by identity, else by equality; they are held, so that no other object can take their id.
    """

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._held: dict[str, tuple[tuple[object, ...], T]] = {}
        self._lock = threading.Lock()

    def get(self, slot: str, parts: tuple[object, ...], make: Callable[[], T]) -> T:
        """The value of a slot for these parts. Two callers at once may both make it; one of the two is kept."""
        with self._lock:
            known = self._held.pop(slot, None)
            if known is not None:
                self._held[slot] = known
        if known is not None and _same(known[0], parts):
            return known[1]
        value = make()
        with self._lock:
            self._held.pop(slot, None)
            self._held[slot] = (parts, value)
            while len(self._held) > self._most:
                self._held.pop(next(iter(self._held)))
        return value


def _same(one: tuple[object, ...], two: tuple[object, ...]) -> bool:
    return len(one) == len(two) and all(a is b or a == b for a, b in zip(one, two, strict=True))
