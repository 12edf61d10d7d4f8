"""Stacks that faulthandler wrote, found in a log."""

from __future__ import annotations

import faulthandler
import threading
from pathlib import Path

from zeroboard.diagnosis.stacks import innermost


def test_the_main_thread_s_innermost_frame_is_found(tmp_path: Path) -> None:
    ready, go = threading.Event(), threading.Event()

    def other() -> None:
        ready.set()
        go.wait()

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    path = tmp_path / "rank_0.log"
    with path.open("w") as log:
        log.write("{'loss': '2.0'}\n")
        log.flush()
        faulthandler.dump_traceback(log, all_threads=True)
        log.write("a word after it\n")
    go.set()
    thread.join()
    lines = path.read_text().split("\n")
    assert sum("most recent call first" in line for line in lines) >= 2
    found = innermost(lines)
    assert found is not None
    at, text = found
    assert lines[at].strip() == text and text.endswith("in test_the_main_thread_s_innermost_frame_is_found")


def test_a_log_without_a_stack_has_none() -> None:
    assert innermost(["Thread 0x00007f (most recent call first):"]) is None
    assert innermost(['  File "x.py", line 3 in main', "Traceback (most recent call last):"]) is None
    assert innermost([]) is None
