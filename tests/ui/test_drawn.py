"""What is made once for all browsers."""

from __future__ import annotations

from zeroboard.ui.drawn import Memo


def test_a_value_is_made_again_only_when_a_part_is_another_one() -> None:
    made: list[int] = []
    memo: Memo[int] = Memo()

    def make() -> int:
        made.append(1)
        return len(made)

    part = [1, 2]
    assert [memo.get("a", (part, 3), make) for _ in range(3)] == [1, 1, 1]
    assert memo.get("a", ([1, 2], 3), make) == 1  # equal is the same
    assert memo.get("a", (part, 4), make) == 2
    assert memo.get("b", (part, 4), make) == 3
    assert memo.get("a", (part, 4), make) == 2


def test_the_slot_that_was_asked_for_least_lately_goes_first() -> None:
    memo: Memo[str] = Memo(most=2)
    memo.get("a", (), lambda: "a")
    memo.get("b", (), lambda: "b")
    memo.get("a", (), lambda: "new")
    memo.get("c", (), lambda: "c")
    assert memo.get("a", (), lambda: "new") == "a"
    assert memo.get("b", (), lambda: "new") == "new"
