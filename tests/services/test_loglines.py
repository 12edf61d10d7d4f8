"""Lines of a log: nothing in them acts, nothing in them is lost, none is too long."""

from __future__ import annotations

import time

import pytest

from zeroboard.services.loglines import LINE_BYTES, begins_traceback, in_traceback, of_level, plain

ACTS = {
    b"\x1b[1;31mred\x1b[0m": "red",
    b"\x1b[38;5;208morange\x1b[m": "orange",
    b"\x1b]0;title\x07text": "text",
    b"\x1b]8;;https://x.invalid\x1b\\link\x1b]8;;\x1b\\": "link",
    "\u009b31mred\u009b0m".encode(): "red",
    b"\x9b31mred\x9b0m": "red",
    "\u009d0;title\u009ctext".encode(): "text",
    b"\x1bPq#0\x1b\\picture": "picture",
    b"\x1b(Bset \x1b7kept\x1b8": "set kept",
    b"\x1b]0;never ended": "␛]0;never ended",
    b"bell\x07 back\x08": "bell back",
    b"nul\x00 del\x7f": "nul␀ del␡",
    b"tab\tstays": "tab\tstays",
    b"bad \xff\xfe bytes": "bad �� bytes",
    "left\u202e turned".encode(): "left turned",
    "损失 📉 é".encode(): "损失 📉 é",
}


@pytest.mark.parametrize("raw", ACTS)
def test_escapes_go_and_control_characters_are_seen(raw: bytes) -> None:
    assert plain(raw) == ACTS[raw]


def test_a_long_line_is_cut_between_characters_and_says_by_how_much() -> None:
    whole = "损" * 2730
    assert plain(whole.encode()) == whole  # 8190 bytes
    cut = plain(("a" + "损" * 4000).encode())
    body, mark = cut.split(" …")
    assert body == "a" + "损" * 2730 and mark == f"[+{1 + 12_000 - LINE_BYTES:,} B]"
    assert plain(b"x" * LINE_BYTES, 5) == "x" * LINE_BYTES + " …[+5 B]"
    assert plain(b"short", 0) == "short"


LEVELS = {
    "2026-11-30 03:00:00,1 - engine - ERROR - no": "error",
    "ERROR:root:no": "error",
    "[2026-11-30 03:00:00] [ERROR] [launch.py:325] gone": "error",
    "CRITICAL no": "error",
    "error: unrecognized arguments": "error",
    "[rank0]: Traceback (most recent call last):": "error",
    "[rank0]: ValueError: no": "error",
    "torch.OutOfMemoryError: CUDA out of memory. Tried": "error",
    "KeyboardInterrupt": "error",
    "E1125 10:11:12.123 12345 torch/x.py:1] failed": "error",
    "[rank1]:[E1125 10:11:12.123456789 ProcessGroupNCCL.cpp:6] Watchdog": "error",
    "nvcc fatal   : Unsupported gpu architecture": "error",
    "terminate called after throwing an instance": "error",
    "Segmentation fault (core dumped)": "error",
    "Killed": "error",
    "[WARNING] async_io requires": "warning",
    "WARNING:torch.distributed.run:": "warning",
    "W1125 10:11:12.123 12345 torch/x.py:1] careful": "warning",
    "[rank0]:[W1125 10:11:12.12 x.cpp:1] Warning: destroy": "warning",
    "/x.py:3: FutureWarning: old": "warning",
    "warning: no": "warning",
    "INFO all is well": "all",
    "{'loss': 1.5, 'error_rate': 0.25}": "all",
    "0 errors found": "all",
    "Ewe 1125": "all",
}


@pytest.mark.parametrize("line", LEVELS)
def test_levels_are_recognised_as_common_libraries_write_them(line: str) -> None:
    level = LEVELS[line]
    assert of_level(line, "all")
    assert of_level(line, "error") == (level == "error")
    assert of_level(line, "warning") == (level in ("error", "warning"))


def test_a_traceback_goes_on_to_its_exception() -> None:
    assert begins_traceback("  + Exception Group Traceback (most recent call last):") and not begins_traceback("a b")
    inside = ('  File "x.py", line 1', "[rank3]:   File", "", "[rank3]:", "During handling of the above exception, b")
    assert all(in_traceback(line) for line in inside)
    assert not in_traceback("[rank3]: ValueError: no") and not in_traceback("ValueError: no")


@pytest.mark.parametrize("raw", [b"\x1b]0;" + b"a" * 30_000, b"\x1b" + b" " * 30_000, b"\x1b[" + b"1" * 30_000])
def test_an_escape_without_an_end_is_gone_through_once(raw: bytes) -> None:
    began = time.perf_counter()
    for _ in range(20):
        assert plain(raw).startswith("\u241b")
    assert time.perf_counter() - began < 1.0
