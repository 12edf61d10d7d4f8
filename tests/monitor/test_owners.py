"""Who a process is: found out once, and anew where its id was given to another."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil

from zeroboard.monitor.owners import Owners


def test_an_id_that_was_given_anew_is_looked_up_anew() -> None:
    owners = Owners()
    argv = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"\n"  # before, its command may be unread
        user, command = owners.of(process.pid)
        assert user == psutil.Process().username() and command is not None and command.endswith("input()")
        assert owners.of(process.pid) == (user, command)
        process.communicate(b"\n")
    assert owners.of(process.pid) == (None, None)
    assert owners.of(os.getpid())[1] != command
    owners.keep([])
    assert owners.of(os.getpid())[0] == psutil.Process().username()
