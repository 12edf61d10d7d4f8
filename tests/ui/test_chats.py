"""Several browsers and the engine processes that they talk to, with the real engine on the tiny model."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from zeroboard.contract.requests import ChatDone, ChatReady, ChatToken, Message
from zeroboard.errors import Busy, Refused
from zeroboard.paths import Paths
from zeroboard.ui.chats import Chats, Question

SHORT = 4
LONG = 440
"""Nearly the tiny model's context."""


def question(tokens: int = SHORT) -> Question:
    hello = (Message(role="user", content="Explain offload to me."),)
    hot = 2.0 if tokens == LONG else 0.0  # so that no end token is likely
    return Question(
        messages=hello, compare=False, raw=False, max_new_tokens=tokens, temperature=hot, top_p=1.0, seed=5
    )  # fmt: skip


@pytest.fixture(scope="module")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.tiny import tiny_model  # torch, where it is needed

    return tiny_model(tmp_path_factory.mktemp("other") / "tiny-llama")


@pytest.fixture
def chats(tmp_path: Path) -> Iterator[Chats]:
    made = Chats(Paths(tmp_path))
    yield made
    made.close_all()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def until(true: Any, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_two_browsers_share_one_process_and_wait_for_each_other(chats: Chats, tiny_model_folder: Path) -> None:
    first = chats.ask("ann", tiny_model_folder, None, question(LONG))
    seen = [next(first)]
    while not isinstance(seen[-1], ChatToken):
        seen.append(next(first))
    assert seen[0] == "loading"
    assert any(isinstance(each, ChatReady) for each in seen)
    (pid,) = chats.pids()

    second = chats.ask("bob", tiny_model_folder, None, question())
    assert next(second) == "waiting"
    with pytest.raises(Busy):
        chats.unload("bob")
    answered: list[Any] = []
    waiting = threading.Thread(target=lambda: answered.extend(second))
    waiting.start()
    chats.stop("ann")
    rest = list(first)
    assert isinstance(rest[-1], ChatDone) and rest[-1].end == "stopped"
    waiting.join(timeout=60)
    assert isinstance(answered[-1], ChatDone) and answered[-1].end != "stopped"
    assert chats.pids() == (pid,)

    freed = chats.unload("ann")
    assert freed is not None and freed.gone and freed.pid == pid and freed.held > 50 << 20
    assert gone(pid) and chats.pids() == ()
    assert chats.unload("ann") is None


def test_whoever_waits_can_stop_waiting(chats: Chats, tiny_model_folder: Path) -> None:
    first = chats.ask("ann", tiny_model_folder, None, question(LONG))
    while not isinstance(next(first), ChatToken):
        pass
    second = chats.ask("bob", tiny_model_folder, None, question())
    assert next(second) == "waiting"
    chats.stop("bob")
    assert list(second) == ["left"]
    first.close()


def test_an_answer_to_a_conversation_that_is_gone_is_known_as_such(chats: Chats, tiny_model_folder: Path) -> None:
    pieces = chats.ask("ann", tiny_model_folder, None, question(LONG))
    while not isinstance(next(pieces), ChatToken):
        pass
    assert not chats.dropped("ann")
    chats.drop("ann")
    assert chats.dropped("ann")
    last = list(pieces)[-1]
    assert isinstance(last, ChatDone) and last.end == "stopped"
    list(chats.ask("ann", tiny_model_folder, None, question()))
    assert not chats.dropped("ann")


def test_another_model_puts_the_first_away(chats: Chats, tiny_model_folder: Path, other_model: Path) -> None:
    list(chats.ask("ann", tiny_model_folder, None, question()))
    (pid,) = chats.pids()
    list(chats.ask("ann", other_model, None, question()))
    assert gone(pid) and len(chats.pids()) == 1


def test_a_model_that_nobody_asks_is_unloaded(tmp_path: Path, tiny_model_folder: Path) -> None:
    chats = Chats(Paths(tmp_path), idle=0.3, left=0.1)
    try:
        list(chats.ask("ann", tiny_model_folder, None, question()))
        (pid,) = chats.pids() or (0,)
        until(lambda: not chats.pids())
        assert pid == 0 or gone(pid)
        assert isinstance(list(chats.ask("ann", tiny_model_folder, None, question()))[-1], ChatDone)
    finally:
        chats.close_all()


def test_a_browser_that_leaves_gives_its_model_back_soon(tmp_path: Path, tiny_model_folder: Path) -> None:
    chats = Chats(Paths(tmp_path), left=0.1)
    try:
        list(chats.ask("ann", tiny_model_folder, None, question()))
        assert chats.pids()
        chats.leave("ann")
        until(lambda: not chats.pids())
    finally:
        chats.close_all()


def test_a_folder_that_cannot_be_loaded_is_refused_and_the_next_question_tries_again(
    chats: Chats, tmp_path: Path
) -> None:
    for _ in range(2):
        with pytest.raises(Refused) as caught:
            list(chats.ask("ann", tmp_path, None, question()))
        assert caught.value.problems[0].says == "load.not-a-model"
    assert chats.pids() == ()
