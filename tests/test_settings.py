"""What the environment says, and what goes first."""

from __future__ import annotations

from pathlib import Path

from zeroboard.settings import read_settings


def test_the_command_line_goes_before_the_environment_and_that_before_the_default(tmp_path: Path) -> None:
    environment = {"ZEROBOARD_CACHE": str(tmp_path / "env")}
    assert read_settings(environment, str(tmp_path / "flag")).cache == tmp_path / "flag"
    assert read_settings(environment).cache == tmp_path / "env"
    assert read_settings({}).cache == Path.cwd() / "cache"
    assert read_settings({"ZEROBOARD_CACHE": ""}).cache == Path.cwd() / "cache"


def test_the_cache_is_absolute_and_a_tilde_is_the_home() -> None:
    assert read_settings({"ZEROBOARD_CACHE": "some/where"}).paths.root == Path.cwd() / "some" / "where"
    assert read_settings({}, "~/zb").cache == Path.home() / "zb"


def test_the_password_comes_from_the_environment_only() -> None:
    assert read_settings({"ZEROBOARD_AUTH": "me:secret"}).auth == "me:secret"
    assert read_settings({}).auth is None
