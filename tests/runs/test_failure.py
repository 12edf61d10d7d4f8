"""Why a run failed: the first cause, not its echoes."""

from __future__ import annotations

from pathlib import Path

from zeroboard.contract.events import ErrorEvent
from zeroboard.runs.failure import Ending, explain, oom_kills

TORCHRUN = """
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
zeroboard.engine FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-29_21:00:01
  host      : here
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 41)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-29_21:00:00
  host      : here
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 42)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 42
============================================================
"""


def error(rank: int, when: float, kind: str = "RuntimeError", message: str = "closed") -> ErrorEvent:
    return ErrorEvent(seq=1, time=when, rank=rank, type=kind, message=message, traceback="…")


def ending(tmp_path: Path, *errors: ErrorEvent, log: str = "", code: int | None = 1, kills: int = 0) -> Ending:
    path = tmp_path / "launcher.log"
    path.write_text(log)
    return Ending(exit_code=code, errors=errors, launcher_log=path, oom_kills=kills)


def test_a_killed_rank_goes_before_the_echo_of_the_others(tmp_path: Path) -> None:
    found = explain(ending(tmp_path, error(0, 5.0), log=TORCHRUN))
    assert found.code == "killed-by-signal" and found.params == {"signal": "SIGKILL", "rank": 1}


def test_a_kill_that_the_memory_limit_counted_is_a_full_memory(tmp_path: Path) -> None:
    found = explain(ending(tmp_path, error(0, 5.0), log=TORCHRUN, kills=1))
    assert found.code == "host-oom" and found.params["rank"] == 1


def test_a_counted_kill_goes_before_ranks_that_only_miss_the_one_that_was_killed(tmp_path: Path) -> None:
    echo = error(0, 5.0, message="Connection closed by peer [127.0.0.1]:4711")
    assert explain(ending(tmp_path, echo, kills=1)).code == "host-oom"
    assert explain(ending(tmp_path, echo)).code == "python-exception"
    assert explain(ending(tmp_path, echo, error(1, 6.0, "ValueError", "bad row"), kills=1)).code == "python-exception"


def test_the_earliest_exception_is_the_cause(tmp_path: Path) -> None:
    found = explain(ending(tmp_path, error(0, 5.0), error(1, 4.0, "ValueError", "bad row")))
    assert (found.code, found.params["rank"], found.params["type"]) == ("python-exception", 1, "ValueError")


def test_a_full_disk_is_recognised_in_an_exception(tmp_path: Path) -> None:
    found = explain(ending(tmp_path, error(0, 5.0, "OSError", "[Errno 28] No space left on device")))
    assert found.code == "disk-full"


def test_without_a_word_the_launchers_last_lines_speak(tmp_path: Path) -> None:
    found = explain(ending(tmp_path, log="No module named zeroboard\n"))
    assert found.says == "run.failed.launcher" and "No module" in str(found.params["message"])


def test_kills_are_counted_where_somebody_counts(tmp_path: Path) -> None:
    events = tmp_path / "memory.events"
    events.write_text("low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n")
    assert oom_kills(events) == 2 and oom_kills(tmp_path / "none") == 0
