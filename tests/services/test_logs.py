"""Logs: the end of a file as a person wants to read it."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest

from tests.fakes import make_run
from zeroboard.errors import NotFound
from zeroboard.paths import Paths
from zeroboard.services import loglines, logs


def test_progress_bars_are_collapsed_colours_taken_away_and_bad_bytes_replaced(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    run = make_run(paths)
    run.rank_log(0).write_bytes(b"\x1b[31mred\x1b[0m\n  1%|  |\r 50%|# |\r100%|##|\nbad \xff byte\n")
    told = logs.tail(paths, run.id, "rank 0")
    assert told.text.splitlines() == ["red", "100%|##|", "bad � byte"]
    assert told.size == run.rank_log(0).stat().st_size


def test_only_the_last_lines_are_given_and_long_ones_are_cut(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    run = make_run(paths)
    run.launcher_log.write_text("".join(f"line {n}\n" for n in range(200_000)) + "x" * 20_000 + "\n")
    lines = logs.tail(paths, run.id, "launcher", lines=3).text.splitlines()
    assert lines[:2] == ["line 199998", "line 199999"] and lines[2] == "x" * 8192 + " …[+11,808 B]"


def test_a_name_that_is_not_listed_is_not_found(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    run = make_run(paths)
    run.rank_log(3).symlink_to(run.state)  # it would lead out of the logs
    for name in ("rank 7", "../state", "state", "rank 3"):
        with pytest.raises(NotFound):
            logs.path(paths, run.id, name)


def follower(tmp_path: Path, content: bytes = b"") -> tuple[logs.LogFollower, Path]:
    file = tmp_path / "rank_0.log"
    file.write_bytes(content)
    return logs.LogFollower(file), file


def grow(file: Path, content: bytes) -> None:
    with file.open("ab") as stream:
        stream.write(content)


def test_an_unchanged_log_is_not_read_again_and_a_grown_one_from_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follows, file = follower(tmp_path, b"one\ntwo\n")
    first, found = follows.look(), follows.look("TWO")
    assert first.text == "one\ntwo" and (found.text, found.numbers, found.count) == ("two", (2,), 1)
    read: list[bytes] = []
    take = logs._Reader._take
    monkeypatch.setattr(logs._Reader, "_take", lambda self, block: (read.append(block), take(self, block)))
    assert follows.look() is first and follows.look("two") is found and read == []
    grow(file, b"three\nanother two\nfo")
    again = follows.look("two")
    assert (again.numbers, again.count, again.text) == ((2, 4), 2, "two\nanother two")
    assert read == [b"three\nanother two\nfo"]
    assert follows.look().text.splitlines() == ["one", "two", "three", "another two", "fo"]
    grow(file, b"ur with two\n")
    assert follows.look("two").numbers == (2, 4, 5)
    file.write_bytes(b"new two\n")
    assert follows.look("two").text == "new two" and follows.look().text == "new two"
    file.unlink()
    with pytest.raises(NotFound):
        follows.look()


def test_a_search_goes_through_the_whole_log_and_keeps_the_newest(tmp_path: Path) -> None:
    lines = [f"step {n} loss {n % 7}.5" + (" needle" if n % 100 == 0 else "") for n in range(1, 200_001)]
    follows, _ = follower(tmp_path, ("\n".join(lines) + "\n").encode())
    for search, count in (("NEEDLE", 2000), ("loss", 200_000), ("nowhere", 0)):
        began = time.process_time()
        found = follows.look(search)
        assert time.process_time() - began < 0.9
        assert found.count == count and found.lines == min(500, count) and found.chosen
        assert [lines[n - 1] for n in found.numbers] == found.text.splitlines()
    assert found.numbers == () and follows.look("needle").numbers[-1] == 200_000


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_what_is_found_does_not_depend_on_how_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(logs, "BLOCK", piece)
    text = (
        "INFO begin\r\n 1%|\r50%|\r100%|##|\nwarn: odd\n[rank1]: Traceback (most recent call last):\n"
        "[rank1]:   File x\n[rank1]: ValueError: bad\nfine again\n\x1b[31mERR\x1b[1mOR\x1b[0m: red\n损失 0.5\n"
        "[W1125 10:00:00.1 nccl.cpp:1] careful\nunfinished error: last"
    ).encode()
    follows, _ = follower(tmp_path, text)
    errors = ["[rank1]: Traceback (most recent call last):", "[rank1]:   File x", "[rank1]: ValueError: bad"]
    late = ["ERROR: red", "unfinished error: last"]
    assert follows.look("", "error").text.splitlines() == [*errors, *late]
    warned = follows.look("", "warning")
    assert warned.numbers == (3, 4, 5, 6, 8, 10, 11) and warned.count == 7
    assert follows.look("error: ", "error").numbers == (6, 8, 11) and follows.look("error: red").numbers == (8,)
    assert follows.look("损失").numbers == (9,) and follows.look("50%").numbers == ()
    assert follows.look().text.splitlines()[:2] == ["INFO begin", "100%|##|"] and follows.look().lines == 11


def test_progress_is_collapsed_across_reads(tmp_path: Path) -> None:
    follows, file = follower(tmp_path, b"begin\n 1%|")
    assert follows.look().text == "begin\n 1%|"
    grow(file, b"\r")
    assert follows.look().text == "begin\n 1%|"
    grow(file, b" 2%|\r 3%|")
    assert follows.look().text == "begin\n 3%|"
    grow(file, b"\r\nnext")
    assert follows.look().text == "begin\n 3%|\nnext"


def test_a_huge_line_is_neither_kept_nor_read_twice(tmp_path: Path) -> None:
    follows, file = follower(tmp_path)
    with file.open("wb") as stream:
        stream.truncate(300 << 20)
        stream.seek(0, 2)
        stream.write(b"x")
    tracemalloc.start()
    found, tail = follows.look("\u2400"), follows.look()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 24 << 20
    assert found.lines == 1 and found.text.startswith("␀␀") and len(found.text) < 3 * 8192
    assert tail.lines == 1 and "B]" in tail.text


def test_the_stamp_of_a_log_changes_when_it_grows(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    log = paths.run("one").rank_log(0)
    log.parent.mkdir(parents=True)
    log.write_text("a\n")
    before = logs.stamp(paths, "one", "rank 0")
    assert logs.stamp(paths, "one", "rank 0") == before
    with log.open("a") as stream:
        stream.write("b\n")
    assert logs.stamp(paths, "one", "rank 0") != before


def test_a_line_that_stays_is_made_readable_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"".join(b"\x1b[31m%d\n" % number for number in range(700)))
    made: list[bytes] = []
    plain = loglines.plain
    monkeypatch.setattr(loglines, "plain", lambda raw, dropped=0: (made.append(raw), plain(raw, dropped))[1])
    follower = logs.LogFollower(file)
    assert follower.look().lines == 500
    made.clear()
    with file.open("ab") as stream:
        stream.write(b"next\n")
    assert follower.look().text.endswith("699\nnext") and len(made) < 5
    file.write_bytes(b"other\n")
    assert follower.look().text == "other"
