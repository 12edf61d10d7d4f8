"""Which rank began it: what is told about time, and whose exception is only an echo."""

from __future__ import annotations

from pathlib import Path

from tests.diagnosis.told import found, raised, report, step

CLOSED = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1"


def test_the_rank_that_failed_goes_before_those_that_lost_it_wherever_they_stand(tmp_path: Path) -> None:
    made = found(tmp_path, raised(CLOSED, rank=0) + raised("ValueError: bad", rank=3) + report(0, 1))
    assert (made.root, made.findings[0].rank, len(made.findings)) == ("python-exception", 3, 1)
    assert made.findings[0].evidence is not None and made.findings[0].evidence.text == "ValueError: bad"


def test_between_logs_the_launcher_s_report_decides(tmp_path: Path) -> None:
    logs = {
        "rank_0.log": raised("ValueError: zero"),
        "rank_1.log": raised("ValueError: one"),
        "launcher.log": report(1, 1),
    }
    made = found(tmp_path, logs)
    assert made.findings[0].rank == 1 and made.findings[0].evidence is not None
    assert (made.findings[0].evidence.file, made.findings[0].evidence.line) == ("rank_1.log", 4)


def test_without_a_report_the_times_of_the_lines_decide(tmp_path: Path) -> None:
    logs = {
        "rank_0.log": "2025-01-01 10:00:05 INFO on\n" + raised("ValueError: zero"),
        "rank_1.log": "2025-01-01 10:00:03 INFO on\n" + raised("ValueError: one"),
    }
    assert found(tmp_path, logs).findings[0].rank == 1


def test_within_a_log_without_times_the_order_decides(tmp_path: Path) -> None:
    made = found(tmp_path, raised("ValueError: five", rank=5) + raised("ValueError: zero", rank=0))
    assert (made.findings[0].rank, made.findings[0].echoes) == (5, 1)


def test_of_a_chain_the_cause_that_is_known_is_told(tmp_path: Path) -> None:
    during = "\nDuring handling of the above exception, another exception occurred:\n\n"
    made = found(tmp_path, raised("OSError: [Errno 28] No space left on device") + during + raised("RuntimeError: no"))
    assert made.root == "disk-full"
    made = found(tmp_path, raised("KeyError: 'm'") + during + raised("OSError: Can't load tokenizer for 'm'."))
    assert made.root == "model-missing"


def test_an_interrupt_is_no_fault_whatever_breaks_on_the_way_out(tmp_path: Path) -> None:
    during = "\nDuring handling of the above exception, another exception occurred:\n\n"
    made = found(tmp_path, step() + raised("KeyboardInterrupt") + during + raised("RuntimeError: worker is gone"))
    assert (made.root, made.findings[0].severity) == ("stopped-by-user", "info")


def test_a_kill_goes_before_exceptions_that_nobody_knows(tmp_path: Path) -> None:
    made = found(tmp_path, raised("RuntimeError: something odd", rank=0) + report(1, -9))
    assert (made.root, made.findings[0].rank, made.findings[0].params["signal"]) == ("killed-by-signal", 1, "SIGKILL")
    made = found(tmp_path, raised("torch.OutOfMemoryError: CUDA out of memory", rank=0) + report(1, -9))
    assert made.root == "cuda-oom"


def test_an_abort_is_the_end_of_a_timeout_and_a_crash_is_its_beginning(tmp_path: Path) -> None:
    watchdog = "[rank1]:[E0510 15:42:13.8 x.cpp:685] [Rank 1] Watchdog caught collective operation timeout: Work ran\n"
    made = found(tmp_path, watchdog + report(1, -6))
    assert (made.root, made.findings[0].params["ranks"]) == ("collective-timeout", "1")
    made = found(tmp_path, watchdog + report(0, -11))
    assert (made.root, made.findings[0].rank, made.findings[0].params["signal"]) == ("killed-by-signal", 0, "SIGSEGV")


def test_what_the_machine_says_explains_what_python_says(tmp_path: Path) -> None:
    xid = "[77.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
    made = found(tmp_path, xid + raised("torch.AcceleratorError: CUDA error: unspecified launch failure", rank=2))
    assert [f.code for f in made.findings] == ["gpu-lost"]
    made = found(tmp_path, raised("torch.OutOfMemoryError: CUDA out of memory", rank=2) + xid)
    assert made.root == "cuda-oom"


def test_the_kernel_s_victim_is_found_by_its_process(tmp_path: Path) -> None:
    killed = "[18.4] Memory cgroup out of memory: Killed process 27950 (python) total-vm:9kB\n"
    made = found(tmp_path, "[18.3] python invoked oom-killer: gfp_mask=0\n" + killed + report(1, -9))
    assert (made.root, made.findings[0].rank) == ("host-oom", 1)
    assert made.findings[0].evidence is not None and "Killed process" in made.findings[0].evidence.text


def test_an_aside_is_the_cause_only_where_nothing_else_is(tmp_path: Path) -> None:
    aside = "Exception ignored in: <function A.__del__>\n" + raised(
        "AttributeError: 'A' object has no attribute 'ds_opt_adam'"
    )
    assert found(tmp_path, aside).root == "op-build-failed"
    assert found(tmp_path, aside + raised("ValueError: real")).root == "python-exception"
