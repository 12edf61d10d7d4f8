"""A session with the real engine in a process of its own, on the tiny model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.results import make_adapter, make_full
from zeroboard.chat.session import ChatSession, Piece
from zeroboard.contract.requests import ChatDone, ChatFailed, ChatPrompt, ChatToken, Message, Progress
from zeroboard.errors import Busy, EngineFailed, Refused

HELLO = (Message(role="user", content="Explain offload to me."),)


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory, tiny_model_folder: Path) -> Path:
    return make_adapter(tmp_path_factory.mktemp("chat") / "adapter", tiny_model_folder)


@pytest.fixture(scope="module")
def session(adapter: Path) -> Iterator[ChatSession]:
    opened = ChatSession.open(adapter)
    yield opened
    opened.close()


LEFT = (0, -signal.SIGTERM)
"""Exit codes of an engine that was closed: by itself, or told to on a machine that is too busy to end it in time."""


def text(pieces: list[Piece], which: str) -> str:
    return "".join(p.text for p in pieces if isinstance(p, ChatToken) and p.which == which)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_one_loaded_base_answers_with_and_without_the_adapter(session: ChatSession) -> None:
    assert session.ready.adapter and session.ready.template == "model"
    both = list(session.ask(HELLO, compare=True, max_new_tokens=16))
    done = [p for p in both if isinstance(p, ChatDone)]
    assert [p.which for p in done] == ["base", "tuned"]
    assert both.index(done[0]) < min(i for i, p in enumerate(both) if isinstance(p, ChatToken) and p.which == "tuned")
    assert text(both, "base") != text(both, "tuned")
    alone = list(session.ask(HELLO, max_new_tokens=16))
    assert text(alone, "tuned") == text(both, "tuned")
    assert done[1].tokens == 16 and done[1].end == "length"


def test_a_stop_ends_a_running_answer_and_the_model_stays(session: ChatSession) -> None:
    pieces = session.ask(HELLO, max_new_tokens=450, temperature=2.0, seed=5)
    next(pieces)  # the prompt
    first = next(pieces)
    session.stop()
    rest = list(pieces)
    assert isinstance(first, ChatToken)
    assert isinstance(rest[-1], ChatDone) and rest[-1].end == "stopped" and rest[-1].tokens < 450
    assert isinstance(list(session.ask(HELLO, max_new_tokens=2))[-1], ChatDone)


def test_a_listener_who_leaves_stops_the_answer(session: ChatSession) -> None:
    pieces = session.ask(HELLO, max_new_tokens=450, temperature=2.0, seed=5)
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    after = list(session.ask(HELLO, max_new_tokens=3))
    assert {p.id for p in after} == {after[-1].id}
    assert isinstance(after[-1], ChatDone) and after[-1].tokens <= 3


def test_the_prompt_is_told_as_it_was_rendered_with_what_will_end_the_answer(session: ChatSession) -> None:
    prompt = next(session.ask(HELLO, max_new_tokens=2))
    assert isinstance(prompt, ChatPrompt) and prompt.tokens > 10
    assert prompt.text == "<|im_start|>user\nExplain offload to me.<|im_end|>\n<|im_start|>assistant\n"
    assert prompt.stops == ("<|im_end|>",)


def test_raw_text_is_continued_without_a_template(session: ChatSession) -> None:
    prompt, *rest = session.ask(HELLO, max_new_tokens=4, raw=True)
    assert isinstance(prompt, ChatPrompt) and prompt.text == "Explain offload to me."
    assert isinstance(rest[-1], ChatDone)
    (failed,) = session.ask((Message(role="user", content=""),), raw=True)
    assert isinstance(failed, ChatFailed) and failed.says == "chat.empty-prompt"


def test_the_memory_of_the_process_is_known_as_long_as_it_lives(adapter: Path) -> None:
    opened = ChatSession.open(adapter)
    assert opened.memory() > 50 << 20
    opened.close()
    assert opened.memory() == 0


def test_a_second_question_at_the_same_time_is_refused(session: ChatSession) -> None:
    pieces = session.ask(HELLO, max_new_tokens=450, temperature=2.0, seed=5)
    next(pieces)
    with pytest.raises(Busy):
        next(session.ask(HELLO))
    session.stop()
    list(pieces)


def test_a_conversation_that_is_too_long_fails_and_the_model_stays(session: ChatSession) -> None:
    *_, failed = session.ask((Message(role="user", content="stage " * 2000),))
    assert isinstance(failed, ChatFailed) and failed.says == "chat.prompt-too-long"
    assert session.alive


def test_a_full_model_is_compared_with_its_base(tmp_path: Path, tiny_model_folder: Path) -> None:
    opened = ChatSession.open(make_full(tmp_path / "m", tiny_model_folder), base=tiny_model_folder)
    try:
        assert opened.ready.adapter
        both = list(opened.ask(HELLO, compare=True, max_new_tokens=12))
        assert text(both, "base") != text(both, "tuned")
    finally:
        opened.close()


def test_closing_ends_the_process_and_may_be_repeated(adapter: Path) -> None:
    told: list[Progress] = []
    opened = ChatSession.open(adapter, on_progress=told.append)
    pid = opened.pid
    assert opened.alive and told and told[-1].done == 1.0
    assert opened.close() in LEFT
    assert not opened.alive and gone(pid)
    opened.close()
    with pytest.raises(EngineFailed):
        list(opened.ask(HELLO))


def test_closing_ends_even_a_running_answer(adapter: Path) -> None:
    opened = ChatSession.open(adapter)
    pieces = opened.ask(HELLO, max_new_tokens=450, temperature=2.0, seed=5)
    next(pieces)
    opened.close()
    assert gone(opened.pid)
    pieces.close()  # type: ignore[attr-defined]


def test_an_engine_that_dies_in_an_answer_is_told_with_its_last_words(adapter: Path, tmp_path: Path) -> None:
    opened = ChatSession.open(adapter, log_to=tmp_path / "logs" / "chat.log")
    pieces = opened.ask(HELLO, max_new_tokens=450, temperature=2.0, seed=5)
    next(pieces)
    os.kill(opened.pid, signal.SIGSEGV)
    with pytest.raises(EngineFailed) as caught:
        list(pieces)
    assert caught.value.params["code"] == -signal.SIGSEGV
    assert "Segmentation fault" in caught.value.params["tail"]
    assert "Segmentation fault" in (tmp_path / "logs" / "chat.log").read_text()
    opened.close()


def test_a_folder_that_is_no_model_is_refused_with_its_problem(tmp_path: Path) -> None:
    started: list[subprocess.Popen[Any]] = []

    def popen(*args: Any, **options: Any) -> subprocess.Popen[Any]:
        started.append(subprocess.Popen(*args, **options))
        return started[-1]

    with pytest.raises(Refused) as caught:
        ChatSession.open(tmp_path, popen=popen)
    assert [p.says for p in caught.value.problems] == ["load.not-a-model"]
    assert started[0].poll() in LEFT


def test_an_engine_that_will_not_leave_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("zeroboard.chat.session.PATIENCE", 0.3)
    ready = '{"kind":"ready","adapter":false,"device":"cpu","template":"model"}'
    script = f"import signal, time; signal.signal(15, signal.SIG_IGN); print('{ready}', flush=True); time.sleep(60)"

    def popen(argv: list[str], **options: Any) -> subprocess.Popen[Any]:
        return subprocess.Popen([sys.executable, "-c", script], **options)

    opened = ChatSession.open(tmp_path, popen=popen)
    assert opened.close() == -signal.SIGKILL
    assert gone(opened.pid)
