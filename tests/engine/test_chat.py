from __future__ import annotations

import io
import queue
from pathlib import Path

from safetensors.torch import load_file, save_file

from tests.engine.results import letters_base, make_adapter
from zeroboard.contract.requests import (
    VERB_LINE,
    Answer,
    ChatAsk,
    ChatDone,
    ChatFailed,
    ChatOpen,
    ChatReady,
    ChatStop,
    ChatToken,
    Message,
    VerbLine,
)
from zeroboard.engine import chat
from zeroboard.engine.channel import Channel

HELLO = (Message(role="user", content="Explain offload to me."),)


def talk(opened: ChatOpen, *lines: ChatAsk | ChatStop | str) -> list[VerbLine]:
    """Everything that the verb says to these lines."""
    text = "".join(f"{line if isinstance(line, str) else line.model_dump_json()}\n" for line in (opened, *lines))
    sink = io.BytesIO()
    assert chat.main(Channel(source=io.StringIO(text), sink=sink)) == 0
    return [VERB_LINE.validate_json(line) for line in sink.getvalue().splitlines()]


def test_a_folder_that_cannot_be_loaded_is_an_answer_with_its_problem(tmp_path: Path) -> None:
    said = talk(ChatOpen(path=str(tmp_path / "gone")))
    assert isinstance(said[-1], Answer) and said[-1].problems[0].says == "load.missing"
    said = talk(ChatOpen(path=str(tmp_path)))
    assert isinstance(said[-1], Answer) and said[-1].problems[0].code == "model-unsupported"


def test_the_base_of_an_adapter_is_never_looked_up_elsewhere(tmp_path: Path, tiny_model_folder: Path) -> None:
    folder = make_adapter(tmp_path / "a", tiny_model_folder)
    said = talk(ChatOpen(path=str(folder), base=str(tmp_path / "someone" / "base")))
    assert isinstance(said[-1], Answer) and said[-1].problems[0].says == "load.base-gone"


def test_a_damaged_file_is_told_in_its_own_sentence(tmp_path: Path, tiny_model_folder: Path) -> None:
    folder = make_adapter(tmp_path / "a", tiny_model_folder)
    (folder / "adapter_model.safetensors").write_bytes(b"")
    said = talk(ChatOpen(path=str(folder)))
    assert isinstance(said[-1], Answer) and said[-1].problems[0].says == "header.too-short"


def test_a_base_of_another_size_is_told_by_the_check_of_the_files(tmp_path: Path, tiny_model_folder: Path) -> None:
    folder = make_adapter(tmp_path / "a", tiny_model_folder)
    said = talk(ChatOpen(path=str(folder), base=str(letters_base(tmp_path / "other"))))
    assert isinstance(said[-1], Answer) and said[-1].problems[0].says == "check.base.does-not-fit"


def test_weights_that_found_no_place_are_counted(tmp_path: Path, tiny_model_folder: Path) -> None:
    """Such an adapter loads without a word and changes nothing."""
    folder = make_adapter(tmp_path / "a", tiny_model_folder)
    weights = folder / "adapter_model.safetensors"
    tensors = load_file(weights)

    def unfit() -> list[int]:
        said = talk(ChatOpen(path=str(folder), base=str(tiny_model_folder)))
        return [line.unfit for line in said if isinstance(line, ChatReady)]

    assert unfit() == [0]
    save_file({f"base_model.{name}": tensor for name, tensor in tensors.items()}, weights, {"format": "pt"})
    assert unfit() == [2 * len(tensors)]


def test_questions_that_nobody_waits_for_are_stopped(tiny_model_folder: Path) -> None:
    """The input is closed at once, so nobody listens: every answer ends before its first token."""
    said = talk(ChatOpen(path=str(tiny_model_folder)), ChatAsk(id="1", messages=HELLO, max_new_tokens=400))
    done = said[-1]
    assert isinstance(done, ChatDone) and done.tokens < 400 and done.end in ("stopped", "end-token")
    assert any(isinstance(line, ChatReady) and not line.adapter for line in said)


def test_a_stop_ends_what_was_asked_before_it_and_nothing_later() -> None:
    asks = [ChatAsk(id=str(n), messages=HELLO) for n in range(3)]
    lines = [asks[0], asks[1], ChatStop(), asks[2]]
    waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    class Source(io.StringIO):
        def readline(self, size: int = -1, /) -> str:
            return waiting.get() or ""

    questions = chat.Questions(Channel(source=Source(), sink=io.BytesIO()))
    questions.start()
    for line in lines:
        waiting.put(line.model_dump_json() + "\n")
    heard = [questions.next() for _ in asks]
    assert [item is not None and item[1]() for item in heard] == [True, True, False]
    waiting.put(None)
    assert questions.next() is None
    assert heard[2] is not None and heard[2][1]()  # nobody listens any more


def test_a_comparison_without_a_base_fails_as_a_sentence(tiny_model_folder: Path) -> None:
    said = talk(ChatOpen(path=str(tiny_model_folder)), ChatAsk(id="1", messages=HELLO, compare=True))
    assert isinstance(said[-1], ChatFailed) and said[-1].says == "chat.nothing-to-compare"


def test_a_line_that_is_no_request_is_passed_over(tiny_model_folder: Path) -> None:
    said = talk(ChatOpen(path=str(tiny_model_folder)), "nonsense", "", ChatAsk(id="7", messages=HELLO))
    assert not any(isinstance(line, ChatFailed) for line in said)
    assert {line.id for line in said if isinstance(line, ChatToken | ChatDone)} == {"7"}
