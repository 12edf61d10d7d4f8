"""Logs as lines: whatever stands in them, and however much."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from zeroboard.diagnosis.reading import LINE_BYTES, Line, Log, lines, logs


def read(path: Path, content: bytes, *, rank: int | None = None, last: int | None = None) -> list[Line]:
    path.write_bytes(content)
    return list(lines(Log(path=path, name=path.name, rank=rank), last))


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    found = read(tmp_path / "a.log", "one\x0b\x0c two\u2028three\r\n\r\nfour".encode())
    assert [(n.number, n.text) for n in found if n.text] == [(1, "one\x0b\x0c two\u2028three"), (3, "four")]


def test_of_a_progress_bar_the_last_state_is_left_and_nothing_that_is_none_is_lost(tmp_path: Path) -> None:
    bars = "".join(f"\r{n:3d}%|##| {n}/100 [00:01<00:02, 1.0s/it]" for n in range(100))
    found = read(
        tmp_path / "a.log", f"{bars}\rValueError: drawn over\r 99%|##| 99/100 [00:01<00:02, 1.0s/it]\n".encode()
    )
    assert [(n.number, n.bar) for n in found] == [(1, False), (1, True)]
    assert found[0].text == "ValueError: drawn over" and "99/100" in found[1].text


def test_what_is_written_behind_a_bar_is_a_line_of_its_own(tmp_path: Path) -> None:
    found = read(tmp_path / "a.log", b"  0%|   | 0/3 [00:00<?, ?it/s]Traceback (most recent call last):\n")
    assert [n.text for n in found if not n.bar] == ["Traceback (most recent call last):"]


def test_colours_go_and_bad_bytes_are_replaced(tmp_path: Path) -> None:
    found = read(tmp_path / "a.log", b"\x1b[31m\x1b[1mbad\x1b[0m caf\xe9 \x1b]0;title\x07end\n")
    assert [n.text for n in found] == ["bad caf\ufffd end"]


def test_the_marks_of_ranks_are_read_off(tmp_path: Path) -> None:
    content = b"[rank3]: a\n[rank12]:[E0510 x] b\n[default1]:  c\n[1,4]<stderr>: d\n[rank0]:\nplain\n"
    found = read(tmp_path / "rank_7.log", content, rank=7)
    assert [(n.rank, n.text) for n in found] == [
        (3, "a"), (12, "[E0510 x] b"), (1, "  c"), (4, "d"), (0, ""), (7, "plain"),
    ]  # fmt: skip


def test_a_line_without_an_end_fills_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * 6_000_000 + b"\nthe end\n")
    tracemalloc.start()
    found = list(lines(Log(path=path, name="a.log", rank=None)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(n.number, len(n.text)) for n in found] == [(1, LINE_BYTES), (2, 7)]
    assert peak < 2_000_000


def test_the_end_alone_still_has_its_numbers(tmp_path: Path) -> None:
    content = b"".join(b"line %d\n" % n for n in range(1, 20_001))
    found = read(tmp_path / "a.log", content, last=100)
    assert 5 < len(found) < 10 and all(n.text == f"line {n.number}" for n in found)
    assert [n.number for n in read(tmp_path / "b.log", b"a\nb\n", last=100)] == [1, 2]


def test_a_folder_s_logs_are_found_with_their_ranks_in_order(tmp_path: Path) -> None:
    for name in ("rank_10.log", "logs/rank_2.log", "logs/launcher.log", "notes.md", "attempt_0/3/stderr.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [(log.name, log.rank) for log in logs(tmp_path)] == [
        ("logs/rank_2.log", 2), ("attempt_0/3/stderr.log", 3), ("rank_10.log", 10), ("logs/launcher.log", None),
    ]  # fmt: skip
