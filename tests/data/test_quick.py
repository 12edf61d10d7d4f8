"""What is made straight away is what the closer look makes, and anything to tell is left to the closer look."""

from __future__ import annotations

import random
from typing import Any

from zeroboard.contract.reports import DataFormat
from zeroboard.data.quick import quick_turns
from zeroboard.data.rows import closely

TEXTS: tuple[Any, ...] = (
    "A question?", "中文。", "", " ", "\n", None, 5, True, ["x"], "<think>a</think> b", "<think>a", "\ufffd", "\ud83d",
    [{"type": "text", "text": "part"}],
)  # fmt: skip
NAMES = ("user", "assistant", "system", "human", "gpt", "tool", "function_call", "User", "narrator", None)


def some(chance: random.Random) -> Any:
    return TEXTS[0] if chance.random() < 0.6 else chance.choice(TEXTS)


def turn(chance: random.Random, number: int) -> Any:
    name = ("user", "assistant")[number % 2] if chance.random() < 0.8 else chance.choice(NAMES)
    keys = chance.choice([("role", "content"), ("from", "value"), ("role", "value")])
    made = {keys[0]: name, keys[1]: some(chance)}
    return {**made, "weight": chance.choice([0, 1])} if chance.random() < 0.1 else made


def row(chance: random.Random, kind: DataFormat) -> dict[str, Any]:
    if kind == "alpaca":
        names = ("instruction", "input", "output", "system", "history")
        made = {name: some(chance) for name in names if chance.random() < (0.9 if names.index(name) < 3 else 0.1)}
    elif kind == "prompt-completion":
        made = {"prompt": some(chance), "completion": some(chance)}
    else:
        made = {"messages": [turn(chance, number) for number in range(chance.randrange(6))]}
    return {**made, "tools": "[]"} if chance.random() < 0.05 else made


def test_both_ways_make_the_same_of_a_row() -> None:
    chance = random.Random(3)
    quick = 0
    kinds: tuple[DataFormat, ...] = ("alpaca", "messages", "sharegpt", "prompt-completion")
    for number in range(6000):
        kind = kinds[number % 4]
        given = row(chance, kind)
        turns = quick_turns(given, kind)
        if turns is None:
            continue
        quick += 1
        judged = closely(1, given, kind)
        assert judged.conversation is not None, given
        assert (judged.conversation.turns, judged.findings, judged.conversation.tools) == (turns, (), ()), given
    assert quick > 1000
