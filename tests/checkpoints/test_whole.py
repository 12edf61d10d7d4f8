from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from zeroboard.checkpoints.consolidate import judge_room
from zeroboard.checkpoints.whole import whole_folder
from zeroboard.errors import Refused
from zeroboard.messages import LANGUAGES, say


def refusal(target: Path) -> str:
    """What stands in the way of a folder at `target`, in English."""
    with pytest.raises(Refused) as refused, whole_folder(target):
        raise AssertionError("it could be written into")
    (problem,) = refused.value.problems
    assert problem.code == "output-not-writable"
    for language in LANGUAGES:
        assert "{" not in say(problem.message_key, language, **problem.params)
    return say(problem.message_key, "en", **problem.params)


def test_a_place_that_no_folder_can_be_made_at_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert os.strerror(errno.EEXIST) in refusal(tmp_path / "file" / "x")
    assert os.strerror(errno.ENOTDIR) in refusal(tmp_path / "file" / "x" / "y")
    assert os.strerror(errno.ENAMETOOLONG) in refusal(tmp_path / ("n" * 300))
    assert os.strerror(errno.EEXIST) in refusal(loop(tmp_path / "loop") / "x")
    assert {path.name for path in tmp_path.iterdir()} == {"file", "loop"}


def loop(path: Path) -> Path:
    path.symlink_to(path)
    return path


def test_room_is_not_asked_for_where_no_path_is(tmp_path: Path) -> None:
    assert judge_room(tmp_path / ("n" * 300) / "x", 1) == ()
    assert [problem.code for problem in judge_room(tmp_path / "a" / "b", 1 << 62)] == ["disk-space"]
