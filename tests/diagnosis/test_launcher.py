"""How processes ended, in the words of launchers and shells."""

from __future__ import annotations

import pytest

from tests.diagnosis.told import line, report
from zeroboard.diagnosis.launcher import WORDS, Exit, Launcher, signal_name


def read(text: str) -> list[Exit]:
    launcher = Launcher()
    for order, content in enumerate(text.split("\n")):
        if any(word in content for word in WORDS):
            launcher.feed(line(content), order)
    return launcher.exits


def test_torchrun_s_report_tells_who_was_seen_first() -> None:
    (first,) = [e for e in read(report(3, -9)) if e.first]
    assert (first.rank, first.code, first.signal, first.pid) == (3, -9, 9, 27950)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[launch.py:325:sigkill_handler] ['python', 'train.py'] exits with return code = -6", -6),
        ("[launch.py:351:main] Process 10265 exits successfully.", 0),
        ("finetune.sh: exit code 137", -9),
        ("run.sh: line 4: 40211 Killed                  python train.py", -9),
        ("run.sh: line 4: 40211 Segmentation fault      (core dumped) python train.py", -11),
        ("Fatal Python error: Aborted", -6),
        ("srun: error: node1: task 3: Bus error", -7),
        ("the launcher ended with exit code 1", 1),
    ],
)
def test_an_end_is_read(text: str, code: int) -> None:
    assert [e.code for e in read(text)] == [code]


def test_words_about_exits_are_no_exits() -> None:
    assert read("The exit code 3 of the game is secret. Go on.\nAborted pregnancies rank 2nd\nexit strategy\n") == []


def test_signals_have_names() -> None:
    assert (signal_name(9), signal_name(200)) == ("SIGKILL", "200")
