"""Data files from the page: named safely, kept once, refused with reasons when nothing in them can be trained on."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeroboard.errors import Refused, UsageError
from zeroboard.paths import Paths
from zeroboard.services import prepare, uploads

ROWS = '{"instruction": "Hi", "output": "Hello"}\n'


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "sent" / "rows.jsonl"
    file.parent.mkdir()
    file.write_text(ROWS)
    return file


def test_a_file_is_kept_and_offered(tmp_path: Path, source: Path) -> None:
    paths = Paths(tmp_path / "cache")
    place = uploads.keep_data(paths, source, "rows.jsonl")
    assert place.parent == paths.data.resolve() and place.read_text() == ROWS
    assert str(paths.data / place.name) in prepare.choices(paths).datasets


def test_the_same_file_is_kept_once_and_another_one_of_its_name_beside_it(tmp_path: Path, source: Path) -> None:
    paths = Paths(tmp_path / "cache")
    first = uploads.keep_data(paths, source, "rows.jsonl")
    assert uploads.keep_data(paths, source, "rows.jsonl") == first
    source.write_text(ROWS * 2)
    second = uploads.keep_data(paths, source, "rows.jsonl")
    assert second != first and first.read_text() == ROWS
    assert sorted(paths.data.iterdir()) == sorted([paths.data / first.name, paths.data / second.name])


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "..\\..\\boot.ini", "/etc/shadow", ".hidden.jsonl", "...", "a\0b.json", "x" * 300]
)
def test_no_name_leads_out_of_the_folder(tmp_path: Path, source: Path, name: str) -> None:
    paths = Paths(tmp_path / "cache")
    place = uploads.keep_data(paths, source, name)
    assert place.parent == paths.data.resolve()
    assert not place.name.startswith(".") and len(place.name) < 120
    assert place.suffix in (".json", ".jsonl")


def test_what_is_no_data_is_refused_with_its_reason_and_not_kept(tmp_path: Path, source: Path) -> None:
    paths = Paths(tmp_path / "cache")
    source.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    with pytest.raises(Refused) as refused:
        uploads.keep_data(paths, source, "picture.jsonl")
    assert {p.message_key for p in refused.value.problems} == {"problem.data-refused", "data.not-a-data-file"}
    assert {p.field for p in refused.value.problems} == {"data.path"}
    assert list(paths.data.iterdir()) == []


def test_a_file_that_is_too_large_or_has_no_room_is_not_even_copied(tmp_path: Path, source: Path) -> None:
    paths = Paths(tmp_path / "cache")
    with pytest.raises(UsageError, match="too-large"):
        uploads.keep_data(paths, source, "rows.jsonl", largest=10)
    with pytest.raises(UsageError, match="no-room"):
        uploads.keep_data(paths, source, "rows.jsonl", reserve=1 << 62)
    assert not paths.data.exists() or list(paths.data.iterdir()) == []
