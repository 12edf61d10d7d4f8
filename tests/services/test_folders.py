"""The folder of the runs is tried, and nothing is left of the trial."""

from __future__ import annotations

from pathlib import Path

from zeroboard.paths import Paths
from zeroboard.services.folders import output_folder


def test_the_nearest_folder_that_is_there_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    found = output_folder(Paths(tmp_path / "a" / "b"))
    assert (found.path, found.exists, found.writable) == (str(tmp_path), True, True)
    assert list(tmp_path.iterdir()) == []


def test_rights_alone_do_not_make_a_folder_writable() -> None:
    closed = Paths(Path("/proc/zeroboard"))
    assert not output_folder(closed).writable


def test_a_file_in_the_place_of_a_folder_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    assert not output_folder(Paths(tmp_path / "cache")).exists
