"""A long piece of work as a generator: what it tells on its way, then what came of it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

Told = TypeVar("Told")
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Came(Generic[Made]):
    """The last that is said: the result."""

    value: Made


def stream(work: Callable[[Callable[[Told], None]], Made]) -> Iterator[Told | Came[Made]]:
    """Run `work` in a thread of its own and pass on what it tells; its exception is raised here.

    Whoever stops listening leaves the work to end by itself.
    """
    lines: queue.SimpleQueue[Told | Came[Made] | _Raised] = queue.SimpleQueue()

    def run() -> None:
        try:
            lines.put(Came(work(lines.put)))
        except Exception as error:  # noqa: BLE001 - carried to the thread that listens
            lines.put(_Raised(error))

    threading.Thread(target=run, name="stream", daemon=True).start()
    while True:
        line = lines.get()
        if isinstance(line, _Raised):
            raise line.error
        yield line
        if isinstance(line, Came):
            return


@dataclass(frozen=True, slots=True)
class _Raised:
    error: Exception
