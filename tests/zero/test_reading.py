"""A DeepSpeed file as bytes: whatever it is, one sentence and no exception."""

from __future__ import annotations

import json

import pytest

from zeroboard.zero.reading import DEEPEST, SIZE_LIMIT, read

GOOD = b'{"zero_optimization": {"stage": 2}}'


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (b" \n\t ", "empty"),
        (b'{"a": 1,}', "comma"),
        (b'{"a": [1, 2,]}', "comma"),
        (b'{\n "a": 1, // why\n "b": 2}', "comment"),
        (b'# why\n{"a": 1}', "comment"),
        (b'{"a": /* why */ 1}', "comment"),
        (b'{"a": NaN}', "nan"),
        (b'{"a": [-Infinity]}', "nan"),
        (b'{"a": 1e999}', "infinite"),
        (b'{"a": [-1e400]}', "infinite"),
        (b"zero_optimization:\n  stage: 3\n", "yaml"),
        (b'[{"a": 1}]', "object"),
        (b"null", "object"),
        (b"3", "object"),
        (b'{"a": 1', "line"),
        (b"\xff\xfe\xfa", "encoding"),
        ('{"a": "é"}'.encode("latin-1"), "encoding"),
        (b'{"a": "\\ud800"}', "encoding"),
        (b'{"\\ud800": 1}', "encoding"),
        (b'{"a": ' + b"9" * 5000 + b"}", "number"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "deep"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "deep"),
        (b" " * (SIZE_LIMIT + 1), "too-large"),
        (b"PK\x03\x04\x00\x00", "line"),
    ],
)
def test_what_holds_no_object_is_told_in_one_sentence(data: bytes, says: str) -> None:
    found = read(data)
    assert found.value is None
    assert [(p.code, p.severity, p.says) for p in found.problems] == [
        ("not-json", "error", f"problem.not-json.file-{says}")
    ]


def test_fifty_megabytes_are_refused_by_their_size_and_not_read() -> None:
    (problem,) = read(GOOD, 50 << 20).problems
    assert problem.says == "problem.not-json.file-too-large" and problem.params["size"] == 50 << 20


def test_the_line_of_a_comment_or_a_comma_is_told() -> None:
    assert read(b'{\n\n"a": 1,\n}').problems[0].params == {"line": 4}
    assert read(b'{\n"a": 1, # b\n}').problems[0].params == {"line": 2}


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf" + GOOD, b"\xff\xfe" + GOOD.decode().encode("utf-16-le")])
def test_a_mark_is_passed_over_and_told(mark: bytes) -> None:
    found = read(mark)
    assert found.value == json.loads(GOOD)
    assert [(p.code, p.severity) for p in found.problems] == [("bom-removed", "warning")]


def test_keys_that_are_given_twice_are_named_with_their_place_all_of_them() -> None:
    found = read(b'{"a": {"b": 1, "c": [{"d": 1, "d": 2}], "b": 2}, "a": {"b": 3, "b": 4, "b": 5}, "e": 1}')
    assert {p.field for p in found.problems} == {"a", "a.b"} and {p.code for p in found.problems} == {"duplicate-key"}
    assert found.value == {"a": {"b": 5}, "e": 1} and type(found.value["a"]) is dict


def test_depth_is_counted_up_to_what_is_allowed() -> None:
    assert read(b'{"a":' * (DEEPEST - 1) + b"1" + b"}" * (DEEPEST - 1)).value is not None
