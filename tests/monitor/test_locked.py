"""How much memory may be locked: tried, not guessed from who we are."""

from __future__ import annotations

import resource

import pytest

from zeroboard.monitor import locked
from zeroboard.monitor.locked import lockable


def limited(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda what: (soft, hard))


def test_no_limit_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 8 << 20, resource.RLIM_INFINITY)
    assert lockable() is None


def test_the_hard_limit_counts_where_a_byte_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 8 << 20, 64 << 20)
    asked = []
    monkeypatch.setattr(locked, "_locks", lambda size: asked.append(size) is not None)
    assert lockable() == 64 << 20 and asked[0] > 8 << 20


def test_who_may_lock_more_than_the_limit_is_not_bound_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 8 << 20, 8 << 20)
    monkeypatch.setattr(locked, "_locks", lambda size: True)
    assert lockable() is None


def test_the_trial_is_a_real_one() -> None:
    assert not locked._locks(1 << 62)  # no machine has that
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == resource.RLIM_INFINITY or soft >= 4096:
        assert locked._locks(4096)
