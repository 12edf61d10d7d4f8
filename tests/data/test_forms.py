"""What a text is by its first bytes."""

from __future__ import annotations

import pytest

from zeroboard.data.forms import HEAD, find_form, is_binary, other_kind
from zeroboard.data.records import Fault
from zeroboard.data.tables import Table


@pytest.mark.parametrize(
    ("head", "form"),
    [
        (b' [{"a": 1}]', "array"),
        (b'{"a": 1}\n{"b": 2}', "lines"),
        (b'# a comment\n{"a": 1}', "lines"),
        (b'{\n "a": 1\n}\n{\n"b": 2}', "objects"),
        (b'{"a": 1}\r{"b": 2}\r', "objects"),
        (b'{"a": "' + b"x" * HEAD, "objects"),
        (b"A letter.\nTo you.", "prose"),
        (b"# Heading\n\n- one\n- two", "prose"),
    ],
)
def test_a_form_is_found_by_the_content(head: bytes, form: str) -> None:
    assert find_form(head, named_table=False) == form


def test_a_table_is_found_by_its_names_or_by_its_shape() -> None:
    found = find_form(b"instruction,output\nq,a\n", named_table=False)
    assert isinstance(found, Table) and found.columns == ("instruction", "output")
    assert isinstance(find_form(b"one,two\n1,2\n", named_table=True), Table)
    assert find_form(b"one,two\n1,2\n", named_table=False) == "prose"


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (b"{'a': 1}", "data.not-json.file"),
        (b'{"a": 1', "data.not-json.file"),
        (b'"text"', "data.unknown-format.no-object"),
        (b"42\n43", "data.unknown-format.no-object"),
    ],
)
def test_what_has_no_form_is_a_fault(head: bytes, says: str) -> None:
    found = find_form(head, named_table=False)
    assert isinstance(found, Fault) and found.says == says


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"PK\x03\x04", "zip / xlsx / docx"),
        (b"  <!DOCTYPE html>", "HTML / XML"),
        (b"<?xml version", "HTML / XML"),
        (b"x" * 257 + b"ustar", "tar"),
        (b"<s>[INST] a text", None),
        (b"{}", None),
    ],
)
def test_other_kinds_are_named(head: bytes, kind: str | None) -> None:
    assert other_kind(head) == kind


def test_what_no_text_holds_is_binary() -> None:
    assert is_binary(bytes(range(32)) * 4) and not is_binary("A text\twith\r\nends, 中文 and \x0c.".encode())
