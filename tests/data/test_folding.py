"""What is folded is tried with the tools that it folds, in `test_tools`. Here: that weights come through."""

from __future__ import annotations

from pathlib import Path

from tests.data.rows_of import chat, codes, lines
from zeroboard.data.conversations import conversations
from zeroboard.data.folding import plain
from zeroboard.data.judge import judge


def test_turns_of_weight_zero_are_kept_for_context_and_not_learned(tmp_path: Path) -> None:
    row = chat(("user", "q"), ("assistant", "no"), ("user", "r"), ("assistant", "yes"))
    row["messages"][1]["weight"] = 0
    nothing = chat(("user", "q"), ("assistant", "a"))
    nothing["messages"][1]["train"] = False
    path = lines(tmp_path / "d", row, nothing)
    (made,) = conversations(path)
    assert [turn.learned for turn in plain(made)] == [True, False, True, True]
    assert codes(judge(path)) == {"no-trainable-tokens": (2,)}
