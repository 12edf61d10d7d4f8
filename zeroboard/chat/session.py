"""A conversation with a model that an engine process of our own holds.

The process lives until `close`, and with it goes all memory that it took, the GPU's included. Covered: an engine that
dies in the middle of an answer, a consumer that stops listening, closing twice. Not covered: which device is free; the
engine takes the GPU when the model fits there.
"""

from __future__ import annotations

import json
import logging
import queue
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import psutil
from pydantic import BaseModel, ValidationError

from zeroboard.contract.requests import (
    VERB_LINE,
    Answer,
    ChatAsk,
    ChatDone,
    ChatFailed,
    ChatOpen,
    ChatPrompt,
    ChatReady,
    ChatStop,
    ChatToken,
    Message,
    Progress,
    VerbLine,
)
from zeroboard.errors import Busy, EngineFailed, Refused
from zeroboard.paths import HOME
from zeroboard.runs.launcher import Popen
from zeroboard.runs.verbs import argv, environment, last_words

log = logging.getLogger(__name__)

LOG_BYTES = 4 << 20
"""Size from which on a log is put aside (over the one before it) when the next model is loaded."""

PATIENCE = 3.0
"""Seconds that the engine has to leave by itself, and again after it was asked to terminate."""

Piece = ChatPrompt | ChatToken | ChatDone | ChatFailed


class ChatSession:
    """One loaded model. Made by `open`; use it from any thread, one question at a time."""

    ready: ChatReady
    """Whether base and tuned can be compared, the device, whose template is used."""

    def __init__(self, process: subprocess.Popen[Any], errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self._said: queue.SimpleQueue[VerbLine | None] = queue.SimpleQueue()
        self._asking = threading.Lock()
        self._writing = threading.Lock()
        self._number = 0
        self._reader = threading.Thread(target=self._read, name="chat", daemon=True)
        self._reader.start()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        base: Path | None = None,
        trust_remote_code: bool = False,
        on_progress: Callable[[Progress], None] | None = None,
        env: Mapping[str, str] | None = None,
        popen: Popen = subprocess.Popen,
        log_to: Path | None = None,
    ) -> ChatSession:
        """Start the engine and wait until it has loaded the model.

        `env` is the whole environment (None: this process's own); the engine's log is appended to `log_to`. Raises
        `Refused` with the problems where the folder cannot be loaded, `EngineFailed` where the engine ends.
        """
        errors: IO[bytes]
        if log_to is None:
            errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        else:
            log_to.parent.mkdir(parents=True, exist_ok=True)
            _bound(log_to)
            errors = log_to.open("a+b")
        process = popen(
            argv("chat"),
            cwd=HOME,
            env=environment(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        session = cls(process, errors)
        try:
            session._load(
                ChatOpen(
                    path=str(path.absolute()),
                    base=str(base.absolute()) if base else None,
                    trust_remote_code=trust_remote_code,
                ),
                on_progress,
            )
        except BaseException:
            session.close()
            raise
        return session

    def ask(
        self,
        messages: Sequence[Message],
        *,
        compare: bool = False,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        raw: bool = False,
    ) -> Iterator[Piece]:
        """The answer, piece by piece: a `ChatPrompt`, tokens and a `ChatDone` (with `compare` first of the base), or a
        `ChatFailed`.

        Leaving the iterator early stops the answer. Raises `Busy` while another question is being answered, and
        `EngineFailed` when the engine ends.
        """
        if not self._asking.acquire(blocking=False):
            raise Busy("chat.busy")
        try:
            self._number += 1
            ask = ChatAsk(
                id=str(self._number),
                messages=tuple(messages),
                compare=compare,
                max_new_tokens=max_new_tokens,
                temperature=temperature,
                top_p=top_p,
                seed=seed,
                raw=raw,
            )
            self._send(ask)
            finished = False
            try:
                while not finished:
                    said = self._next()
                    # pieces of an answer that nobody waited for may still be in the pipe
                    if not isinstance(said, ChatPrompt | ChatToken | ChatDone | ChatFailed) or said.id != ask.id:
                        continue
                    finished = isinstance(said, ChatFailed) or (isinstance(said, ChatDone) and said.which == "tuned")
                    yield said
            finally:
                if not finished and self.alive:
                    self.stop()
        finally:
            self._asking.release()

    def stop(self) -> None:
        """End the answer that is being made; its `ChatDone` says `stopped`. Without one, nothing happens."""
        if self.alive:
            self._send(ChatStop())

    @property
    def alive(self) -> bool:
        """Whether the engine process is there."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    def memory(self) -> int:
        """Bytes of the host's memory that the engine process holds now; 0 when it is gone."""
        try:
            return int(psutil.Process(self.pid).memory_info().rss) if self.alive else 0
        except psutil.NoSuchProcess:
            return 0

    def close(self) -> int:
        """End the engine process for certain and return its exit code: asked, then terminated, then killed.

        When this returns the process is gone, and so is the memory that it held. It has nothing to save, so ending it
        harder loses nothing. May be called twice.
        """
        assert self._process.stdin is not None
        with self._writing:
            try:
                self._process.stdin.close()
            except BrokenPipeError:  # it had ended already
                log.debug("the chat engine was gone before it was closed")
        for harder in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(timeout=PATIENCE)
                break
            except subprocess.TimeoutExpired:
                harder()
        code = int(self._process.wait())
        self._reader.join(timeout=PATIENCE)
        self._errors.close()
        return code

    def _load(self, request: ChatOpen, on_progress: Callable[[Progress], None] | None) -> None:
        self._send(request)
        while True:
            said = self._next()
            if isinstance(said, ChatReady):
                self.ready = said
                return
            if isinstance(said, Answer):
                raise Refused(said.problems)
            if isinstance(said, Progress) and on_progress is not None:
                on_progress(said)

    def _send(self, line: BaseModel) -> None:
        assert self._process.stdin is not None
        with self._writing:
            try:
                self._process.stdin.write(line.model_dump_json().encode() + b"\n")
                self._process.stdin.flush()
            except (BrokenPipeError, ValueError) as error:  # it ended, or the session was closed
                raise self._failed() from error

    def _next(self) -> VerbLine:
        said = self._said.get()
        if said is None:
            self._said.put(None)  # whoever asks next finds the end too
            raise self._failed()
        return said

    def _failed(self) -> EngineFailed:
        """The end of the engine as an exception, with the last lines of its log."""
        try:
            code: int | None = self._process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            code = None
        tail = last_words(self._errors) if not self._errors.closed else ""
        return EngineFailed("error.engine-failed", verb="chat", code=code, tail=tail)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.strip():
                    self._hear(line)
        self._said.put(None)

    def _hear(self, line: bytes) -> None:
        try:
            self._said.put(VERB_LINE.validate_json(line))
        except (ValidationError, json.JSONDecodeError):
            log.warning("the chat engine said what is not of the protocol: %r", line[:200])


def _bound(path: Path) -> None:
    """Begin a log anew where it has grown large; engines that are at work go on writing into the old one."""
    if path.is_file() and path.stat().st_size > LOG_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))
