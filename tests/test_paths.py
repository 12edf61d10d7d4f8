"""Where everything lies, and that nothing lies elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeroboard.errors import NotFound, UnsafePath
from zeroboard.paths import ASSETS, Paths, confine


def test_everything_lies_under_the_cache_folder(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    run = paths.run("20261129-211004-tiny-z2-7f3a")
    places = [paths.runs, paths.models, paths.data, paths.tokens, paths.locks, paths.logs, paths.exports]
    inside = [run.spec, run.plan, run.state, run.events, run.readings, run.lock, run.launcher_log, run.supervisor_log]
    inside += [run.rank_log(3), run.requests, run.checkpoints, run.model, run.verify_report]
    assert all(place.parent == tmp_path for place in places) and len(set(places)) == len(places)
    assert all(place.is_relative_to(paths.runs / run.id) for place in inside) and len(set(inside)) == len(inside)
    assert not list(tmp_path.iterdir()), "naming a place makes none"


@pytest.mark.parametrize("name", ["", "..", "a/b", "../x", "A", ".hidden", "a b", "a\n", "x" * 65, "-x", "ä"])
def test_what_could_be_no_run_is_not_found(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFound) as raised:
        Paths(tmp_path).run(name)
    assert raised.value.exit_code == 2


def test_a_path_inside_is_resolved_and_let_pass(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert confine(tmp_path / "a" / ".." / "b", [tmp_path]) == tmp_path / "b"
    assert confine(tmp_path, [tmp_path / "elsewhere", tmp_path]) == tmp_path


def test_neither_dots_nor_links_lead_out(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to("/etc")
    for path in (root / ".." / "x", root / "link" / "passwd", Path("/etc/passwd"), tmp_path / "rooted"):
        with pytest.raises(UnsafePath):
            confine(path, [root])


def test_the_assets_are_there() -> None:
    assert (ASSETS / "locales" / "en.json").is_file()
