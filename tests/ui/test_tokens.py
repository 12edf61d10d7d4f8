"""A row as the page draws it: every kind of token has its mark, and nothing in a text becomes markup."""

from __future__ import annotations

from zeroboard.contract.plan import Bin, TokenFacts
from zeroboard.contract.samples import Piece, SampleView
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
