"""The verb `chat`: holds one model and answers until standard input is closed.

First line in: `ChatOpen`. Out: `Progress` while it loads, then `ChatReady`, or an `Answer` with the problems. After
that each `ChatAsk` is answered with `ChatToken`s and a `ChatDone` (two with `compare`: base first), or a `ChatFailed`.
Before an answer a `ChatPrompt` tells what the model was given. A `ChatStop` ends the answers that were asked for before
it.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import ValidationError

from zeroboard.contract.requests import (
    CHAT_LINE,
    Answer,
    ChatAsk,
    ChatDone,
    ChatFailed,
    ChatOpen,
    ChatPrompt,
    ChatReady,
    ChatStop,
    ChatToken,
)
from zeroboard.engine.channel import Channel
from zeroboard.engine.generate import CannotAsk, Pieces, generate, prompt_tokens, stop_tokens
from zeroboard.engine.load import CannotLoad, Loaded, load_result


def main(channel: Channel) -> int:
    """Load, then answer. Returns 0; raises what no question could have caused."""
    request = ChatOpen.model_validate_json(channel.receive() or "")
    base = Path(request.base) if request.base else None
    try:
        loaded = load_result(
            Path(request.path),
            base,
            trust_remote_code=request.trust_remote_code,
            on_step=lambda says, done: channel.progress("load", done, says),
        )
    except CannotLoad as error:
        channel.send(Answer(problems=(error.problem,)))
        return 0
    questions = Questions(channel)
    questions.start()
    comparable = loaded.adapter or loaded.base_folder is not None
    unfit = len(loaded.missing) + len(loaded.unexpected) + len(loaded.mismatched)
    channel.send(ChatReady(adapter=comparable, device=loaded.device, template=loaded.template, unfit=unfit))
    while (question := questions.next()) is not None:
        ask, stopped = question
        _answer(channel, loaded, ask, stopped)
    return 0


class Questions:
    """Reads the lines on a thread of its own, so that a stop is heard while an answer is being made.

    Every question has a number, and a stop ends the questions up to the number that was last read when it came; so a
    stop can neither be lost nor end a later question.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._waiting: queue.SimpleQueue[tuple[ChatAsk, int] | None] = queue.SimpleQueue()
        self._asked = 0
        self._stopped = 0

    def start(self) -> None:
        threading.Thread(target=self._read, name="questions", daemon=True).start()

    def next(self) -> tuple[ChatAsk, Callable[[], bool]] | None:
        """The next question and whether it was stopped; None when no more will come."""
        item = self._waiting.get()
        if item is None:
            return None
        ask, number = item
        return ask, lambda: self._stopped >= number

    def _read(self) -> None:
        while (line := self._channel.receive()) is not None:
            if not line.strip():
                continue
            try:
                said = CHAT_LINE.validate_json(line)
            except ValidationError as error:  # a line of another version: the log says so, the model stays loaded
                sys.stderr.write(f"not understood: {error}\n")
                continue
            if isinstance(said, ChatStop):
                self._stopped = self._asked
            else:
                self._asked += 1
                self._waiting.put((said, self._asked))
        self._stopped = self._asked  # nobody listens any more
        self._waiting.put(None)


def _answer(channel: Channel, loaded: Loaded, ask: ChatAsk, stopped: Callable[[], bool]) -> None:
    try:
        ids = prompt_tokens(loaded.tokenizer, ask.messages, raw=ask.raw)
        stops = stop_tokens(loaded.tokenizer, loaded.model, raw=ask.raw)
        channel.send(_prompt(loaded, ask, ids, stops))
        if ask.compare:
            if not loaded.adapter and loaded.base_folder is None:
                raise CannotAsk("chat.nothing-to-compare")
            with loaded.before() as model:
                _speak(channel, loaded, model, ask, "base", ids, stops, stopped)
        _speak(channel, loaded, loaded.model, ask, "tuned", ids, stops, stopped)
    except CannotAsk as error:
        channel.send(ChatFailed(id=ask.id, says=error.says, params=error.params))
    except CannotLoad as error:
        channel.send(ChatFailed(id=ask.id, says=error.problem.message_key, params=error.problem.params))
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        channel.send(ChatFailed(id=ask.id, says="chat.out-of-memory"))


def _prompt(loaded: Loaded, ask: ChatAsk, ids: list[int], stops: frozenset[int]) -> ChatPrompt:
    names = loaded.tokenizer.convert_ids_to_tokens(sorted(stops))
    return ChatPrompt(
        id=ask.id,
        text=str(loaded.tokenizer.decode(ids, clean_up_tokenization_spaces=False)),
        tokens=len(ids),
        stops=tuple(str(name) for name in names),
    )


def _speak(
    channel: Channel,
    loaded: Loaded,
    model: Any,
    ask: ChatAsk,
    which: Literal["base", "tuned"],
    ids: list[int],
    stops: frozenset[int],
    stopped: Callable[[], bool],
) -> None:
    started = time.monotonic()
    pieces = Pieces(loaded.tokenizer)
    count = 0

    def say(text: str) -> None:
        if text:
            channel.send(ChatToken(id=ask.id, which=which, text=text))

    def on_token(token: int) -> None:
        nonlocal count
        count += 1
        say(pieces.push(token))

    end = generate(
        model,
        ids,
        stops=stops,
        max_new_tokens=ask.max_new_tokens,
        temperature=ask.temperature,
        top_p=ask.top_p,
        seed=ask.seed,
        on_token=on_token,
        stopped=stopped,
    )
    say(pieces.rest())
    seconds = time.monotonic() - started
    channel.send(ChatDone(id=ask.id, which=which, tokens=count, seconds=seconds, end=end))
