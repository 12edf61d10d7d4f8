"""Files are there whole or not at all; streams are read without their unfinished end."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from zeroboard.errors import BrokenFile
from zeroboard.files import (
    append_line,
    place,
    read_json,
    read_lines,
    read_whole,
    sha256_file,
    sha256_text,
    share,
    to_json,
    write_atomic,
    write_last,
    write_over,
)


def test_a_file_is_written_whole_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    write_atomic(path, "grüß 中文")
    assert path.read_bytes() == "grüß 中文".encode()
    write_atomic(path, b"\x00\x01")
    assert path.read_bytes() == b"\x00\x01"
    assert [p.name for p in path.parent.iterdir()] == ["b.json"]


def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    write_atomic(path, "old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, "new")
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_shared_folder_can_be_read_by_others_and_its_links_lead_no_mode_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("private")
    outside.chmod(0o600)
    folder = tmp_path / "model"
    (folder / "inner").mkdir(parents=True, mode=0o700)
    for path in (folder / "a", folder / "inner" / "b"):
        path.write_text("x")
        path.chmod(0o600)
    (folder / "link").symlink_to(outside)
    share(folder)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [*folder.rglob("*"), folder]}
    assert modes == {"a": 0o644, "b": 0o644, "inner": 0o755, "model": 0o755, "link": 0o600}


def test_a_folder_takes_its_place_unless_another_was_faster(tmp_path: Path) -> None:
    target = tmp_path / "done"
    for name, first in (("one", True), ("two", False)):
        made = tmp_path / f".{name}"
        made.mkdir()
        (made / "who").write_text(name)
        assert place(made, target) is first
    assert [path.name for path in tmp_path.iterdir()] == ["done"] and (target / "who").read_text() == "one"
    with pytest.raises(FileNotFoundError):
        place(tmp_path / "nothing", target)


def test_lines_are_read_on_from_the_offset(tmp_path: Path) -> None:
    path = tmp_path / "e"
    append_line(path, "one")
    append_line(path, "zwei ü")
    first = read_lines(path)
    assert first.lines == ("one", "zwei ü") and not first.restarted
    assert read_lines(path, first.offset).lines == ()
    append_line(path, "three")
    assert read_lines(path, first.offset).lines == ("three",)


def test_an_unfinished_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "e"
    path.write_bytes(b'{"a": 1}\n{"b"')
    found = read_lines(path)
    assert found.lines == ('{"a": 1}',)
    with path.open("ab") as stream:
        stream.write(b": 2}\n")
    assert read_lines(path, found.offset).lines == ('{"b": 2}',)


def test_a_look_is_bounded_and_a_long_line_comes_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "e"
    path.write_text("".join(f"{n}\n" for n in range(100)) + "x" * 500 + "\n")
    seen: list[str] = []
    offset, looks = 0, 0
    while (found := read_lines(path, offset, limit=64)).lines:
        seen += found.lines
        offset = found.offset
        looks += 1
    assert looks > 3 and seen[:100] == [*map(str, range(100))]
    assert "".join(seen[100:]) == "x" * 500 and max(map(len, seen)) == 64


def test_a_file_that_was_replaced_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "e"
    path.write_text("a long first line\n")
    offset = read_lines(path).offset
    path.write_text("new\n")
    found = read_lines(path, offset)
    assert found.lines == ("new",) and found.restarted
    path.unlink()
    assert read_lines(path, offset).lines == () and read_lines(path, offset).restarted


def test_only_a_line_feed_ends_a_line_and_broken_bytes_stop_nothing(tmp_path: Path) -> None:
    path = tmp_path / "e"
    path.write_bytes("a\u2028b\r\n".encode() + b"\xff\n")
    assert read_lines(path).lines == ("a\u2028b\r", "\ufffd")


def test_writers_never_mix_within_a_line(tmp_path: Path) -> None:
    path = tmp_path / "e"

    def write(letter: str) -> None:
        for _ in range(200):
            append_line(path, letter * 300)

    writers = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines = read_lines(path).lines
    assert len(lines) == 800 and all(len(set(line)) == 1 and len(line) == 300 for line in lines)


def test_json_is_strict_and_readable(tmp_path: Path) -> None:
    assert to_json({"a": "中"}) == '{\n  "a": "中"\n}\n'
    assert to_json([1, 2], indent=None) == "[1, 2]"
    with pytest.raises(ValueError, match="Out of range"):
        to_json(float("nan"))
    path = tmp_path / "f.json"
    path.write_text(to_json({"a": 1}))
    assert read_json(path) == {"a": 1}


@pytest.mark.parametrize("content", [b"", b'{"a":', b"\xff\xfe", b"nope"])
def test_a_file_of_ours_that_is_no_json_is_broken(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(content)
    with pytest.raises(BrokenFile) as raised:
        read_json(path)
    assert raised.value.params["path"] == str(path)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none")


def test_hashes_are_those_of_the_content(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(json.dumps(["ü"] * 50_000).encode())
    assert sha256_file(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert sha256_text("ü") == hashlib.sha256("ü".encode()).hexdigest()


def test_what_is_no_regular_file_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for path in (tmp_path / "pipe", tmp_path / "zero", tmp_path):
        with pytest.raises(OSError, match="no regular file"):
            read_whole(path)
    assert read_lines(tmp_path / "pipe").lines == ()  # it has no size


def test_a_last_word_is_kept_on_a_full_disk_where_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "state.json"
    write_last(path, '{"state": "running", "phase": "weights"}')
    monkeypatch.setattr(tempfile, "mkstemp", full)
    write_last(path, '{"state": "failed"}')
    assert path.read_text() == '{"state": "failed"}'
    with pytest.raises(OSError, match="space"):
        write_last(path, " " * (path.stat().st_blocks * 512 + 1))
    assert path.read_text() == '{"state": "failed"}', "what has no room there is not begun"
    with pytest.raises(OSError, match="space"):
        write_last(tmp_path / "new.json", "{}")
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


def test_what_finds_no_room_leaves_nothing_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.json"
    write_over(path, "whole")

    def full(self: Path, content: str, **options: object) -> None:
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="space"):
        write_over(path, "half")
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"] and path.read_bytes() == b"whole"
