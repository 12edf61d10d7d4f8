"""Tracebacks: which exception it was, and what belongs together."""

from __future__ import annotations

from tests.diagnosis.told import line, raised
from zeroboard.diagnosis.tracebacks import Raised, Stream


def read(text: str) -> list[Raised]:
    stream, found = Stream(), []
    for order, content in enumerate(text.split("\n")):
        exception, _ = stream.feed(line(content, number=order + 1), order)
        if exception is not None:
            found.append(exception)
    return found


def test_type_message_frames_and_line_are_read() -> None:
    (found,) = read(
        "before\n" + raised("torch.cuda.OutOfMemoryError: CUDA out of memory.", "/a/b.py:main", "/c.py:run")
    )
    assert (found.type, found.text) == (
        "torch.cuda.OutOfMemoryError",
        "torch.cuda.OutOfMemoryError: CUDA out of memory.",
    )
    assert found.frames == ("/a/b.py:main", "/c.py:run") and found.line.number == 7


def test_a_message_of_several_lines_is_whole_and_ends_where_a_logger_speaks() -> None:
    message = "RuntimeError: Error(s):\n\tsize mismatch for a\n\tsize mismatch for b"
    (found,) = read(raised(message) + "2025-01-01 10:00:00 INFO on\n")
    assert found.text == message


def test_what_is_raised_while_another_is_handled_is_of_one_chain() -> None:
    during = "\nDuring handling of the above exception, another exception occurred:\n\n"
    first, second, third = read(raised("KeyError: 'a'") + during + raised("OSError: b") + raised("ValueError: c"))
    assert first.chain == second.chain != third.chain


def test_the_original_of_a_worker_is_marked() -> None:
    carrier, original = read(
        raised("KeyError: Caught KeyError in worker process 0.\nOriginal Traceback (most recent call last):\n"
               '  File "/x/fetch.py", line 1, in fetch\n    data\nKeyError: \'answer\'')
    )  # fmt: skip
    assert (carrier.original, original.original, original.text) == (False, True, "KeyError: 'answer'")
    assert original.chain == carrier.chain


def test_what_a_destructor_or_a_logger_raises_is_an_aside_and_what_follows_is_not() -> None:
    text = "Exception ignored in: <function A.__del__>\n" + raised("AttributeError: x") + raised("ValueError: y")
    assert [(e.type, e.aside) for e in read(text)] == [("AttributeError", True), ("ValueError", False)]
    text = "--- Logging error ---\n" + raised("TypeError: x") + "Exception in thread Thread-1:\n" + raised("OSError: y")
    assert [e.aside for e in read(text)] == [True, True]


def test_a_row_of_data_that_quotes_a_traceback_is_none() -> None:
    assert (
        read("user: I got\n    Traceback (most recent call last):\n    RuntimeError: no\n{'text': 'ValueError: x'}\n")
        == []
    )
    assert read("INFO: RuntimeError: told\nthe RuntimeError: of yesterday\n") == []


def test_an_exception_whose_traceback_was_cut_off_is_found() -> None:
    assert [e.type for e in read("torch.OutOfMemoryError: CUDA out of memory.\n")] == ["torch.OutOfMemoryError"]


def test_a_box_of_rich_and_the_last_words_of_cpp_are_read() -> None:
    assert [
        e.text for e in read("╭─── Traceback (most recent call last) ───╮\n│ a.py:1 in f │\n╰───╯\nValueError: v\n")
    ] == ["ValueError: v"]
    text = "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: out of memory\n"
    assert [e.text for e in read(text)] == ["c10::Error: CUDA error: out of memory"]


def test_a_warning_in_the_middle_of_a_traceback_is_not_the_exception() -> None:
    head, _, rest = raised("ValueError: v").partition("    call(x)\n")
    (found,) = read(head + "WARNING: tokenization mismatch: 1 vs. 2\nINFO:root:other\n" + rest)
    assert found.text == "ValueError: v"
