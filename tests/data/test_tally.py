"""Counting: every kind of problem once a row, with its first rows and the first quotation."""

from __future__ import annotations

from zeroboard.data.opening import FileFault
from zeroboard.data.records import Fault, damaged
from zeroboard.data.rows import Judged
from zeroboard.data.tally import Tally
from zeroboard.data.turns import Finding


def test_a_problem_counts_once_a_row_and_quotes_its_first() -> None:
    tally = Tally()
    again = (
        Finding(code="unknown-role", refused=True, detail="a\x07"),
        Finding(code="unknown-role", refused=True, detail="b"),
    )
    tally.add(Judged(1, True, None, (), {"n": 1}))
    for row in range(2, 40):
        tally.add(Judged(row, False, None, again, {"n": row}))
    tally.add(Judged(40, True, None, (Finding(code="role-order", changed=True),), {"n": 40}))
    first, second = tally.problems()
    assert (tally.total, tally.usable, tally.changed) == (40, 2, 1)
    assert (first.code, first.count, first.rows, first.excerpt) == ("unknown-role", 38, tuple(range(2, 22)), '{"n": 2}')
    assert first.params["details"] == r"a\x07, b" and str(first.params["rows"]).endswith("21 …")
    assert (second.code, second.severity, second.rows) == ("role-order", "warning", (40,))


def test_a_fault_takes_everything_back_and_stands_first() -> None:
    tally = Tally()
    tally.add(Judged(1, True, None, (Finding(code="role-order", changed=True),)))
    tally.fail(FileFault(fault=Fault(code="not-json", params={"row": 7}), row=7))
    assert (tally.total, tally.usable, tally.changed) == (7, 0, 0)
    assert [(p.code, p.rows) for p in tally.problems()] == [("not-json", (7,)), ("role-order", (1,))]


def test_damage_is_told_in_one_line() -> None:
    fault = damaged("gzip", EOFError("cut\nand more"))
    assert fault.params == {"kind": "gzip", "why": "cut"} and damaged("gzip", EOFError()).params["why"] == "EOFError"
