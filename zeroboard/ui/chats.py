"""Who talks to which model: one engine process a folder, shared by all browsers, ended when nobody needs it.

Covered: questions of several browsers to one model wait for each other; a browser that takes another model, leaves, or
says nothing for long gives its memory back; the dashboard's end ends every engine (a killed one too: its engines see
their input close). Not covered: how much fits; the engine measures that, and refuses with the reason.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from zeroboard.chat.session import ChatSession, Piece
from zeroboard.contract.requests import ChatReady, Message, Progress
from zeroboard.errors import Busy
from zeroboard.paths import Paths
from zeroboard.services import results
from zeroboard.services.results import Freed
from zeroboard.ui.stream import Came, stream

IDLE = 900.0
"""Seconds without a question after which a model is unloaded."""
LEFT = 60.0
"""The same, once no browser holds it any more: long enough for a reload of the page."""
LOOK = 0.2
"""Seconds between two looks whether it is one's turn, or one was told to stop waiting."""

Stage = Literal["waiting", "loading", "left"]
"""Another browser is being answered; the model is being loaded; stopped before there was an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, and how the answer is chosen."""

    messages: Sequence[Message]
    compare: bool
    raw: bool
    max_new_tokens: int
    temperature: float
    top_p: float
    seed: int


@dataclass(slots=True)
class _Engine:
    """A folder's process, once it was asked for."""

    folder: Path
    base: Path | None
    trusted: bool = False
    """Its own code may run, as it did in the training."""
    turn: threading.Lock = field(default_factory=threading.Lock)
    """Held by the question that is being answered, and while it is loaded or unloaded."""
    session: ChatSession | None = None
    owners: set[str] = field(default_factory=set)
    """Browsers whose conversation is with this model."""
    asking: str | None = None
    timer: threading.Timer | None = None


class Chats:
    """All models that are held for the page."""

    def __init__(self, paths: Paths, *, idle: float = IDLE, left: float = LEFT) -> None:
        self._paths, self._idle, self._left = paths, idle, left
        self._engines: dict[Path, _Engine] = {}
        self._stopped: set[str] = set()
        """Owners that were told to stop before their question came to its turn."""
        self._dropped: set[str] = set()
        """Owners whose conversation is another one now than that of the answer that is still being written."""
        self._lock = threading.Lock()

    def ask(
        self, owner: str, folder: Path, base: Path | None, question: Question, *, trusted: bool = False
    ) -> Generator[Stage | Progress | ChatReady | Piece, None, None]:
        """The answer with everything that comes before it: waiting, loading, what is loaded, then `ChatSession.ask`.

        Raises what opening and asking raise.
        """
        engine = self._take(owner, folder, base, trusted)
        with self._lock:
            self._stopped.discard(owner)
            self._dropped.discard(owner)
        if not engine.turn.acquire(blocking=False):
            yield "waiting"
            while not engine.turn.acquire(timeout=LOOK):
                if owner in self._stopped:
                    yield "left"
                    return
        try:
            self._cancel(engine)
            engine.asking = owner
            if engine.session is None or not engine.session.alive:
                yield "loading"
                yield from self._load(engine)
            session = engine.session
            assert session is not None
            yield session.ready
            if owner in self._stopped:
                yield "left"
                return
            yield from session.ask(
                question.messages,
                compare=question.compare,
                raw=question.raw,
                max_new_tokens=question.max_new_tokens,
                temperature=question.temperature,
                top_p=question.top_p,
                seed=question.seed,
            )
        finally:
            engine.asking = None
            engine.turn.release()
            self._later(engine, self._idle if engine.owners else self._left)

    def stop(self, owner: str) -> None:
        """Ends the answer that is being written for this browser, or its waiting for one."""
        with self._lock:
            self._stopped.add(owner)
            asked = [e for e in self._engines.values() if e.asking == owner and e.session is not None]
        for engine in asked:
            if engine.session is not None:
                engine.session.stop()

    def drop(self, owner: str) -> None:
        """Ends the answer that is being written for this browser, whose conversation is gone."""
        with self._lock:
            self._dropped.add(owner)
        self.stop(owner)

    def dropped(self, owner: str) -> bool:
        """Whether that happened since the last question: what still comes belongs to no conversation."""
        return owner in self._dropped

    def unload(self, owner: str) -> Freed | None:
        """Ends the engine process of this browser's model and measures what that freed; None where none is loaded.

        Raises `Busy` while another browser is being answered by it.
        """
        engine = self._of(owner)
        if engine is None or engine.session is None:
            return None
        if engine.asking not in (None, owner):
            raise Busy("ui.chat.unload-busy")
        self.stop(owner)
        with engine.turn:
            self._cancel(engine)
            freed = results.unload(engine.session) if engine.session is not None else None
            engine.session = None
        return freed

    def leave(self, owner: str) -> None:
        """This browser went away; a model that nobody else talks to is unloaded soon."""
        engine = self._of(owner)
        if engine is not None:
            self.drop(owner)
            engine.owners.discard(owner)
            if not engine.owners:
                self._later(engine, self._left)

    def pids(self) -> tuple[int, ...]:
        """Of the engine processes that hold a model now."""
        with self._lock:
            return tuple(e.session.pid for e in self._engines.values() if e.session is not None and e.session.alive)

    def close_all(self) -> None:
        """Ends every engine process, whatever it is doing."""
        with self._lock:
            engines = list(self._engines.values())
        for engine in engines:
            self._cancel(engine)
            if engine.session is not None:
                engine.session.close()

    def _take(self, owner: str, folder: Path, base: Path | None, trusted: bool) -> _Engine:
        """The engine of a folder, held by this browser from now on instead of any other."""
        held = self._of(owner)
        if held is not None and held.folder != folder:
            held.owners.discard(owner)
            if not held.owners:
                self._end(held)
        with self._lock:
            engine = self._engines.setdefault(folder, _Engine(folder, base, trusted))
            engine.owners.add(owner)
            return engine

    def _load(self, engine: _Engine) -> Iterator[Progress]:
        def work(tell: Callable[[Progress], None]) -> ChatSession:
            log = self._paths.logs / "chat.log"
            return results.open_chat(
                self._paths, engine.folder, engine.base, trusted=engine.trusted, on_progress=tell, log_to=log
            )

        for line in stream(work):
            if isinstance(line, Came):
                engine.session = line.value
            else:
                yield line

    def _of(self, owner: str) -> _Engine | None:
        with self._lock:
            return next((e for e in self._engines.values() if owner in e.owners), None)

    def _later(self, engine: _Engine, seconds: float) -> None:
        self._cancel(engine)
        engine.timer = threading.Timer(seconds, self._end, [engine])
        engine.timer.daemon = True
        engine.timer.start()

    def _cancel(self, engine: _Engine) -> None:
        if engine.timer is not None:
            engine.timer.cancel()

    def _end(self, engine: _Engine) -> None:
        """Unload, unless it is at work: then its timer starts anew when that is done."""
        if engine.turn.acquire(blocking=False):
            try:
                if engine.session is not None:
                    engine.session.close()
                    engine.session = None
            finally:
                engine.turn.release()
