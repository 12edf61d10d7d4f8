"""Stacks are asked only of processes that will answer and live on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.fakes import make_run
from zeroboard.contract.beats import Beat
from zeroboard.contract.events import RankEvent
from zeroboard.paths import Paths, RunPaths
from zeroboard.runs.processes import MARK, catches, owner
from zeroboard.runs.stacks import MOST, Stacks

ANSWERS = (
    "import faulthandler, signal, sys, time\n"
    "def hang():\n"
    "    print('ready', flush=True)\n"
    "    time.sleep(60)\n"
    "faulthandler.register(signal.SIGUSR1, file=sys.stdout, all_threads=True)\n"
    "hang()\n"
)
DIES = "import time\nprint('ready', flush=True)\ntime.sleep(60)\n"


class Rank:
    """A process in the place of rank 0."""

    def __init__(self, run: RunPaths, code: str, *, marked: bool = True) -> None:
        run.logs.mkdir(exist_ok=True)
        run.rank_log(0).write_text("a line\nand another\n")
        environ = {**os.environ, **({MARK: run.id} if marked else {})}
        with run.rank_log(0).open("ab") as log:
            self.process = subprocess.Popen([sys.executable, "-c", code], stdout=log, env=environ)
        until = time.monotonic() + 10
        while "ready" not in run.rank_log(0).read_text():
            assert time.monotonic() < until
            time.sleep(0.02)
        pid = self.process.pid
        self.event = RankEvent(
            seq=1, time=time.time(), rank=0, host=socket.gethostname(), device="cpu", pid=pid, world_size=1
        )
        self.beat = Beat(rank=0, host=self.event.host, pid=pid, step=1, where="backward", moves=2, moved=1.0, time=2.0)

    def lives(self, seconds: float = 0.4) -> bool:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False


@pytest.fixture
def run(paths: Paths) -> RunPaths:
    return make_run(paths)


def test_a_rank_that_registered_writes_its_stack_and_lives_on(run: RunPaths) -> None:
    rank = Rank(run, ANSWERS)
    try:
        stacks = Stacks(run)
        stacks.ask([rank.event], [rank.beat], since=0.0)
        until = time.monotonic() + 5
        while not (found := stacks.read()):
            assert time.monotonic() < until
            time.sleep(0.02)
        evidence = found[0]
        assert evidence.file == "logs/rank_0.log" and evidence.text == 'File "<string>", line 4 in hang'
        lines = run.rank_log(0).read_text().split("\n")
        assert evidence.line is not None and lines[evidence.line - 1].strip() == evidence.text
        assert rank.lives()
        for _ in range(MOST + 2):
            stacks.ask([rank.event], [rank.beat], since=0.0)
            time.sleep(0.1)
        assert run.rank_log(0).read_text().count("most recent call first") == MOST
    finally:
        rank.process.kill()
        rank.process.wait()


def test_whoever_would_die_of_it_or_is_not_known_is_left_alone(run: RunPaths) -> None:
    dies, stranger = Rank(run, DIES), Rank(run, ANSWERS, marked=False)
    try:
        stacks = Stacks(run)
        stacks.ask([dies.event], [dies.beat], since=0.0)
        stacks.ask([stranger.event], [stranger.beat], since=0.0)
        assert dies.lives() and stranger.lives(0.0)
        assert "most recent call first" not in run.rank_log(0).read_text() and stacks.read() == {}
    finally:
        for rank in (dies, stranger):
            rank.process.kill()
            rank.process.wait()


@pytest.mark.parametrize("change", ["none", "pid", "host"])
def test_a_rank_whose_beat_is_missing_or_another_s_is_left_alone(run: RunPaths, change: str) -> None:
    rank = Rank(run, ANSWERS)
    try:
        other = {"pid": rank.beat.pid + 1} if change == "pid" else {"host": "elsewhere"}
        beats = [] if change == "none" else [rank.beat.model_copy(update=other)]
        Stacks(run).ask([rank.event], beats, since=0.0)
        time.sleep(0.2)
        assert rank.lives(0.0) and "most recent call first" not in run.rank_log(0).read_text()
    finally:
        rank.process.kill()
        rank.process.wait()


def test_which_signals_a_process_catches_and_whose_it_is() -> None:
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    try:
        assert catches(os.getpid(), signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert not catches(os.getpid(), signal.SIGUSR2) and not catches(2**22 + 1, signal.SIGUSR1)
    told = owner(os.getpid())
    assert told is not None and ": " in told and owner(2**22 + 1) is None
