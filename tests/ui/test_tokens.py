"""A row as the page draws it: every kind of token has its mark, and nothing in a text becomes markup."""

from __future__ import annotations

import re

from zeroboard.contract.plan import Bin, HeldTokens, PartTokens, TokenFacts
from zeroboard.contract.samples import Piece, SampleView
from zeroboard.contract.spec import DataSpec
from zeroboard.ui.views import tokens as view

VIEW = SampleView(
    row=3,
    pieces=(
        Piece(text="<|im_start|>", ids=(1,), special=True),
        Piece(text="user", ids=(7,)),
        Piece(text="<b>", ids=(8, 9), learned=True),
        Piece(text="!", ids=(10,), learned=True),
        Piece(text="<|im_end|>", ids=(2,), learned=True, special=True),
        Piece(text="\n", ids=(11,), cut=True),
    ),
    tokens=7,
    learned=4,
    shown=7,
)


def test_learned_tokens_are_marked_and_texts_are_escaped() -> None:
    text = str(view.sample(VIEW, "en", ids=False))
    assert '<mark class="tok learned">&lt;b&gt;!</mark>' in text
    assert '<span class="tok learned special">&lt;|im_end|&gt;</span>' in text
    assert '<span class="tok context cut">\n</span>' in text and "<b>" not in text
    with_ids = str(view.sample(VIEW, "en", ids=True))
    assert '<span class="id">8 9</span>' in with_ids and with_ids.count('class="id"') == len(VIEW.pieces)


def test_the_histogram_names_every_bar_and_marks_what_is_cut() -> None:
    bars = (Bin(start=0, end=9, rows=4), Bin(start=10, end=19, rows=0), Bin(start=20, end=29, rows=1))
    facts = TokenFacts(
        key="k", rows=5, tokens=60, learned=20, longest=25, truncated=1, end_token_lost=1, without_trainable=0,
        histogram=bars, template="model",
    )  # fmt: skip
    drawn = str(view.histogram(facts, 16, "zh-CN"))
    assert drawn.count("<li") == 3 and 'style="height:100.0%"' in drawn and 'style="height:25.0%"' in drawn
    assert drawn.count('class="beyond"') == 1 and "20 至 29 个 token：1 行" in drawn


def test_what_an_epoch_sees_of_each_file_is_drawn_to_scale() -> None:
    data = DataSpec.model_validate({"path": "/d/a.jsonl", "weight": 2, "more": [{"path": "b.csv", "weight": 0.5}]})
    parts = (PartTokens(rows=3, seen=6, tokens=60, learned=30), PartTokens(rows=8, seen=4, tokens=40, learned=10))
    facts = TokenFacts(
        key="k", rows=10, tokens=100, learned=40, longest=25, truncated=0, end_token_lost=0, without_trainable=0,
        parts=parts, evaluation=4, held=HeldTokens(overlap=1, left_out=0, truncated=0), template="model",
    )  # fmt: skip
    drawn = str(view.facts(facts, None, (), data=data, lang="en"))
    cells = re.findall(r"<td[^>]*>(.*?)</td>", drawn)
    assert cells[:4] == ["a.jsonl", "2", "3", "6"] and cells[5:9] == ["b.csv", "0.5", "8", "4"]
    assert 'style="width:75.0%"' in cells[4] and cells[4].endswith("75.0 %") and "25.0 %" in cells[9]
    assert "<dt>Held out</dt><dd>4</dd>" in drawn
