"""Data files from the page: named safely, kept once, refused with reasons when nothing in them can be trained on."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes import make_run
from tests.ui.scripted import move, myself
from zeroboard.contract.mix import DataPart, Mix
from zeroboard.errors import Busy, NotFound, Refused, UsageError
from zeroboard.files import write_atomic
from zeroboard.paths import Paths
from zeroboard.runs import registry
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


@pytest.mark.parametrize("name", ["hub", "Hub", "data/hub"])
def test_no_file_takes_the_place_of_the_folder_of_what_comes_from_a_hub(
    tmp_path: Path, source: Path, name: str
) -> None:
    paths = Paths(tmp_path / "cache")
    place = uploads.keep_data(paths, source, name)
    assert place.name.lower().startswith("hub-") and not paths.hub_data.exists()
    assert uploads.keep_data(paths, source, name) == place


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "..\\..\\boot.ini", "/etc/shadow", ".hidden.jsonl", "...", "a\0b.json", "x" * 300]
)
def test_no_name_leads_out_of_the_folder(tmp_path: Path, source: Path, name: str) -> None:
    paths = Paths(tmp_path / "cache")
    place = uploads.keep_data(paths, source, name)
    assert place.parent == paths.data.resolve()
    assert not place.name.startswith(".") and len(place.name) < 120
    assert "/" not in place.name and place.read_text() == ROWS


def test_what_is_no_data_is_refused_with_its_reason_and_not_kept(tmp_path: Path, source: Path) -> None:
    paths = Paths(tmp_path / "cache")
    source.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    with pytest.raises(Refused) as refused:
        uploads.keep_data(paths, source, "picture.jsonl")
    assert {p.message_key for p in refused.value.problems} == {"problem.data-refused.upload", "data.not-a-data-file"}
    assert {p.field for p in refused.value.problems} == {"data.path"}
    assert list(paths.data.iterdir()) == []


def test_a_file_that_is_too_large_or_has_no_room_is_not_even_copied(tmp_path: Path, source: Path) -> None:
    paths = Paths(tmp_path / "cache")
    with pytest.raises(UsageError, match="too-large"):
        uploads.keep_data(paths, source, "rows.jsonl", largest=10)
    with pytest.raises(UsageError, match="no-room"):
        uploads.keep_data(paths, source, "rows.jsonl", reserve=1 << 62)
    assert not paths.data.exists() or list(paths.data.iterdir()) == []


CSV = "question,answer\nHi,Hello\nBye,See you\n"


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("rows.csv", lambda file: file.write_text(CSV)),
        ("rows.tsv", lambda file: file.write_text(CSV.replace(",", "\t"))),
        ("rows.csv.gz", lambda file: file.write_bytes(gzip.compress(CSV.encode()))),
        ("Zeilen.txt", lambda file: file.write_text("A line of prose.\nAnother line.\n")),
        ("中文 数据.jsonl", lambda file: file.write_text(ROWS)),
        ("Fragen.csv", lambda file: file.write_text("Frage,Entgegnung\nHi,Hallo\nTag,Guten Tag\n")),
    ],
)
def test_every_form_keeps_its_name_and_its_ending(tmp_path: Path, name: str, write: Callable[[Path], object]) -> None:
    paths, source = Paths(tmp_path / "cache"), tmp_path / "sent"
    write(source)
    place = uploads.keep_data(paths, source, name)
    assert place.name == name.replace(" ", "-") and place.read_bytes() == source.read_bytes()
    assert str(paths.data / place.name) in prepare.choices(paths).datasets


def test_what_came_is_listed_and_deleted_and_nothing_else(tmp_path: Path, source: Path) -> None:
    paths = Paths(tmp_path / "cache")
    assert uploads.uploads(paths) == ()
    place = uploads.keep_data(paths, source, "rows.jsonl")
    secret = tmp_path / "secret.jsonl"
    secret.write_text(ROWS)
    (paths.data / "link.jsonl").symlink_to(secret)
    (found,) = uploads.uploads(paths)
    assert (found.name, found.size) == ("rows.jsonl", len(ROWS)) and found.path.samefile(place)
    for name in ("link.jsonl", "../../secret.jsonl", "none.jsonl", ""):
        with pytest.raises(NotFound):
            uploads.delete(paths, name)
    uploads.delete(paths, "rows.jsonl")
    assert uploads.uploads(paths) == () and secret.exists() and not place.exists()


@pytest.mark.parametrize("role", ["path", "more", "held_out"])
def test_a_file_is_not_deleted_under_a_run_that_trains_on_it_or_measures_it(
    tmp_path: Path, source: Path, role: str
) -> None:
    paths = Paths(tmp_path / "cache")
    place = uploads.keep_data(paths, source, "rows.jsonl")
    part = DataPart(path=str(place))
    changes = {
        "path": {"data_path": str(place)},
        "more": {"mix": Mix(more=(part,))},
        "held_out": {"mix": Mix(held_out=part)},
    }
    run = make_run(paths)
    plan = registry.read_plan(run)
    assert plan.resolved is not None
    told = plan.model_copy(update={"resolved": plan.resolved.model_copy(update=changes[role])})
    write_atomic(run.plan, told.model_dump_json())
    move(run, "running", supervisor=myself())
    with pytest.raises(Busy) as busy:
        uploads.delete(paths, "rows.jsonl")
    assert busy.value.params["run"] == run.id and place.exists()
    move(run, "finished")
    uploads.delete(paths, "rows.jsonl")
    assert not place.exists()
