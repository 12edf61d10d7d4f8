"""Plain text: paragraphs, or lines where there are none."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.data.rows_of import codes
from zeroboard.data import prose
from zeroboard.data.conversations import conversations
from zeroboard.data.judge import judge


def texts(path: Path) -> list[str | None]:
    return [conversation.text for conversation in conversations(path)]


def test_blank_lines_part_paragraphs_and_without_them_each_line_is_a_text(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("\n\nIt was a dark night.\nIt rained.\n\n \nThen, at last,\nday came.\n")
    assert texts(path) == ["It was a dark night.\nIt rained.", "Then, at last,\nday came."]
    assert (judge(path).format, judge(path).problems) == ("text", ())
    path.write_text("One line.\nAnother, with a comma.\nA third, too.")
    assert texts(path) == ["One line.", "Another, with a comma.", "A third, too."]


def test_broken_letters_cost_their_paragraph(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.write_bytes("Über alles.\n\n".encode() + b"Bro\xffken.\n\nWhole.\n")
    assert texts(path) == ["Über alles.", "Whole."] and codes(judge(path)) == {"broken-character": (2,)}


def test_a_paragraph_without_an_end_is_cut_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "LARGEST_ROW", 30)
    found = prose.read_prose(io.BytesIO(b"0123456789\n" * 5), paragraphs=True)
    assert [len(record.value["text"]) for record in found] == [21, 21, 10]
